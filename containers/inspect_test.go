package containers_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/kollet/kollet/containers"
)

func TestInspectAll(t *testing.T) {
	ids, want := []int{}, []containers.Container{}
	for id := range 20 {
		ids = append(ids, id)
		if id%3 != 0 {
			want = append(want, containers.Container{ID: fmt.Sprint(id)})
		}
	}
	got, err := containers.InspectAll(ids, func(id int) (containers.Container, error) {
		if id%3 == 0 {
			return containers.Container{}, fmt.Errorf("inspect %d: %w", id, containers.ErrNotFound)
		}
		return containers.Container{ID: fmt.Sprint(id)}, nil
	})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err := containers.InspectAll(ids, func(int) (containers.Container, error) { return containers.Container{}, broken }); !errors.Is(err, broken) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}
