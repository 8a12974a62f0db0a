package bench

import (
	"slices"
	"testing"
)

// spread of a series of measurements.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // a quarter is below
	High   float64 `json:"high"` // a quarter is above
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf at least one value.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	at := func(part float64) float64 {
		place := part * float64(last)
		below := int(place)
		return sorted[below] + (place-float64(below))*(sorted[min(below+1, last)]-sorted[below])
	}
	return spread{Median: at(0.5), Low: at(0.25), High: at(0.75), Min: sorted[0], Max: sorted[last]}
}

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{7}, spread{7, 7, 7, 7, 7}},
		{[]float64{9, 1}, spread{5, 3, 7, 1, 9}},
		{[]float64{5, 1, 4, 2, 3}, spread{3, 2, 4, 1, 5}},
		{[]float64{4, 1, 3, 2}, spread{2.5, 1.75, 3.25, 1, 4}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}
