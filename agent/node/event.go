package node

import "fmt"

// Event reports the progress of a command to its user.
type Event struct {
	Kind    EventKind `json:"event"`
	Step    string    `json:"step,omitempty"`
	Service string    `json:"service,omitempty"`
	Text    string    `json:"text,omitempty"`
	Done    int64     `json:"done,omitempty"`  // bytes, of a pull
	Total   int64     `json:"total,omitempty"` // bytes known so far
}

// EventKind says what an Event is about.
type EventKind string

const (
	StepBegins EventKind = "begin" // Step
	StepEnds   EventKind = "end"   // Step; Text is how long it took
	StepFails  EventKind = "fail"  // Step; Text is the error
	Pulling    EventKind = "pull"  // Service, Done, Total; Text is the engine's status
	Note       EventKind = "note"  // Text, and Service if it concerns one
)

// Emit reports an event.
func (n *Node) Emit(e Event) {
	if n.Report != nil {
		n.Report(e)
	}
}

// Note reports a line of text, about a service if one is named.
func (n *Node) Note(service, format string, args ...any) {
	n.Emit(Event{Kind: Note, Service: service, Text: fmt.Sprintf(format, args...)})
}
