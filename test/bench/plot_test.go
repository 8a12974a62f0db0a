package bench

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// newPlot returns an empty plot. Its font has the metrics of Arial and Helvetica,
// which browsers show if they lack it.
func newPlot() *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	return plot.New()
}

// svgOf draws a table of plots into one SVG.
func svgOf(width, height vg.Length, plots [][]*plot.Plot) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: len(plots), Cols: len(plots[0]), PadX: vg.Centimeter / 2, PadY: vg.Centimeter / 2}
	for i, row := range plot.Align(plots, tiles, draw.New(canvas)) {
		for j, c := range row {
			plots[i][j].Draw(c)
		}
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	return out.Bytes(), nil
}

// bar is a span of time in one row of a plot.
type bar struct {
	from, to, low, high float64
	colour              string // #rrggbb
}

func (b bar) polygon() (*plotter.Polygon, error) {
	polygon, err := plotter.NewPolygon(plotter.XYs{{X: b.from, Y: b.low}, {X: b.to, Y: b.low}, {X: b.to, Y: b.high}, {X: b.from, Y: b.high}})
	if err != nil {
		return nil, err
	}
	rgb, err := hex.DecodeString(b.colour[1:])
	if err != nil {
		return nil, err
	}
	polygon.Color = color.RGBA{R: rgb[0], G: rgb[1], B: rgb[2], A: 255}
	polygon.LineStyle.Width = 0
	return polygon, nil
}

// addTo draws the bar into a plot and, if it has a name, into the legend.
func (b bar) addTo(p *plot.Plot, name string) error {
	polygon, err := b.polygon()
	if err != nil {
		return err
	}
	p.Add(polygon)
	if name != "" {
		p.Legend.Add(name, polygon)
	}
	return nil
}

// explain adds the bar's colour to the legend.
func (b bar) explain(p *plot.Plot, name string) error {
	polygon, err := b.polygon()
	if err != nil {
		return err
	}
	p.Legend.Add(name, polygon)
	return nil
}
