package upgrade

import (
	"context"
	"time"
)

// What a rollback does, and what follows a commit, is tried this often: an engine that
// fails once or is restarted, or a disk that is full for a moment, must not leave a
// service stopped until an operator runs `kollet recover`.
const (
	tries     = 3
	tryPeriod = time.Second
)

// persist does something that may be repeated until it succeeds or was tried often enough.
func persist(ctx context.Context, do func() error) error {
	err := do()
	for n := 1; n < tries && err != nil; n++ {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(tryPeriod):
		}
		err = do()
	}
	return err
}
