package generation

import (
	"errors"
	"testing"
)

// What was left to kolla-ansible after the node was given back is no service of the generation that
// runs. Those that kollet runs are not affected by what was taken over.
func TestCurrentWithoutWhatIsLeft(t *testing.T) {
	s := store(t)
	given := Generation{Number: 2, Services: []Service{{Name: "iscsid"}, {Name: "nova"}}}
	own := Generation{Number: 3, Services: []Service{{Name: "iscsid", Origin: 3}, {Name: "nova", Origin: 3}}}
	record := Adopted{Generation: Generation{Services: []Service{{Name: "nova"}}}, Containers: map[string]Container{"nova": {ID: "1"}}}
	if err := errors.Join(s.Write(given, nil, nothing), s.Write(own, nil, nothing), s.SetAdopted(record)); err != nil {
		t.Fatal(err)
	}
	for number, want := range map[int]int{0: 1, 2: 1, 3: 2} {
		g, err := s.LoadCurrent(number)
		if _, has := g.Service("nova"); err != nil || len(g.Services) != want || !has {
			t.Errorf("generation %d: %+v, %v", number, g.Services, err)
		}
	}
	if g, err := s.Load(2); err != nil || len(g.Services) != 2 {
		t.Errorf("its record: %+v, %v", g.Services, err)
	}
}
