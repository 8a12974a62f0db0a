package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// listDatabases is a request of the Open vSwitch Database Management Protocol (RFC 7047,
// section 4.1.1).
const listDatabases = `{"method":"list_dbs","params":[],"id":"kollet"}`

// askDatabase requires that one of the servers of a database answers. Clients use any of
// them.
func askDatabase(ctx context.Context, servers string) error {
	remotes, err := nodefile.ParseRemotes(servers)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(remotes))
	for _, r := range remotes {
		go func() {
			err := askServer(ctx, r)
			if err != nil && len(remotes) > 1 {
				err = fmt.Errorf("%s: %w", r.Addr, err)
			}
			answers <- err
		}()
	}
	var failed []error
	for range remotes {
		err := <-answers
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// askServer requires the answer of a server. Of one with TLS it requires a connection:
// without a certificate of the client there is no answer, and the key is the service's.
func askServer(ctx context.Context, r nodefile.Remote) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if r.TLS {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, listDatabases); err != nil {
		return unanswered(ctx, err)
	}
	var answer struct {
		ID     string   `json:"id"`
		Result []string `json:"result"`
	}
	const most = 1 << 16
	err = json.NewDecoder(io.LimitReader(conn, most)).Decode(&answer)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || kind || err == nil && answer.ID != "kollet" {
		return errors.New("it does not speak OVSDB")
	}
	return unanswered(ctx, err)
}
