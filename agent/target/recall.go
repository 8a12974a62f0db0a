package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
)

// Recall makes a target of an earlier generation; 0 means the one before the
// current. A file of it that was changed manually is an error. Of what kolla-ansible ran, only
// generation 0 has all that is needed.
func Recall(n *node.Node, number int) (*Target, error) {
	if number == 0 {
		var err error
		if number, err = previous(n); err != nil {
			return nil, node.BadInput{Err: err}
		}
		if number == 0 {
			return Adopted(n)
		}
	}
	if _, err := os.Lstat(n.Store().Path(number)); errors.Is(err, fs.ErrNotExist) {
		return nil, node.BadInput{Err: missing(n, number)}
	}
	g, err := n.Store().Load(number)
	if err != nil {
		return nil, node.BadInput{Err: err}
	}
	if g.Adopted() {
		return Adopted(n)
	}
	key, err := n.Key()
	if err != nil {
		return nil, err
	}
	t := &Target{Reason: fmt.Sprintf("rollback to %d", number), Engine: g.Engine, Pull: "missing", StallTimeout: nodefile.StallTimeout, Key: key, Files: map[string][]generation.Rendered{}}
	current, _ := n.Current() // if it cannot be read, the upgrade says so
	t.Base, t.Hotfix = current.Number, g.Hotfix
	t.Recalled, t.Redactor, t.Cloud = true, RedactorOf(n), CloudOf(n)
	for _, s := range g.Services {
		for _, f := range s.Files {
			r, changed, err := n.Store().Recall(key, number, s.Name, f)
			if changed {
				return nil, node.BadInput{Err: fmt.Errorf("cannot roll back to generation %d: %s of %s was changed manually; choose another generation (`kollet history`), or run `kollet upgrade`", number, f.Name, s.Name)}
			}
			if err != nil {
				return nil, fmt.Errorf("read generation %d: %w", number, err)
			}
			t.Files[s.Name] = append(t.Files[s.Name], r)
		}
		t.Services = append(t.Services, s)
	}
	return t, nil
}

// Adopted makes a target of generation 0: what ran before kollet took the node over.
func Adopted(n *node.Node) (*Target, error) {
	a, err := n.Store().Adopted()
	if err != nil {
		return nil, err
	}
	if len(a.Containers) == 0 {
		return nil, node.BadInput{Err: errors.New("kollet has not taken this node over from kolla-ansible: there is no generation 0")}
	}
	key, err := n.Key()
	if err != nil {
		return nil, err
	}
	current, _ := n.Current() // if it cannot be read, the upgrade says so
	return &Target{
		Reason: "rollback to 0", Base: current.Number, Engine: a.Generation.Engine, Pull: "missing", StallTimeout: nodefile.StallTimeout,
		Recalled: true, Returns: true, Services: a.Generation.Services, Files: map[string][]generation.Rendered{}, Key: key,
		Redactor: RedactorOf(n), Cloud: CloudOf(n),
	}, nil
}

// missing says that a generation is not on this node, and which ones a rollback can return to.
func missing(n *node.Node, number int) error {
	kept, err := n.Kept()
	if err != nil {
		return err
	}
	current, _ := n.CurrentNumber() // without it, more of them are named
	a, _ := n.Store().Adopted()     // without it, generation 0 is not named
	var others []string
	if len(a.Containers) > 0 {
		others = append(others, "0")
	}
	for _, other := range kept {
		if other != current {
			others = append(others, strconv.Itoa(other))
		}
	}
	choice := "there is no other generation to roll back to"
	if len(others) > 0 {
		choice = "a rollback can return to generation " + strings.Join(others, " or ")
	}
	if number > current {
		return fmt.Errorf("there is no generation %d on this node; %s", number, choice)
	}
	return fmt.Errorf("generation %d is no longer on this node; %s", number, choice)
}

// previous is the generation that the current one replaced: 0 if that was kolla-ansible's.
func previous(n *node.Node) (int, error) {
	current, err := n.Current()
	if err != nil {
		return 0, err
	}
	if current.Number == 0 {
		return 0, node.ErrNoGeneration
	}
	records, err := journal.Read(n.Journals(), current.Number)
	if err != nil {
		return 0, err
	}
	if len(records) > 0 && records[0].From > 0 {
		return records[0].From, nil
	}
	a, err := n.Store().Adopted()
	if err == nil && len(a.Containers) == 0 {
		err = fmt.Errorf("generation %d is the node's first; there is no earlier one to roll back to", current.Number)
	}
	return 0, err
}
