package nodefile

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kollet/kollet/agent/wary"
)

// mostRead is how large a node file may be. One with a thousand services has about a
// megabyte.
const mostRead = 16 << 20

func read(path string) ([]byte, error) {
	data, err := readLimited(path)
	if wary.Unfit(err) {
		err = fmt.Errorf("%w; give the path of the node file with --node-file", err)
	}
	return data, err
}

// readLimited also reads what a shell gives kollet open, such as a pipe.
func readLimited(path string) ([]byte, error) {
	if path != "/dev/stdin" && !strings.HasPrefix(path, "/dev/fd/") && !strings.HasPrefix(path, "/proc/self/fd/") {
		return wary.ReadFile(path, mostRead)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostRead+1))
	if len(data) > mostRead {
		return nil, &wary.SizeError{Path: path, Limit: mostRead}
	}
	return data, err
}
