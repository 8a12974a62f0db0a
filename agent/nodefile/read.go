package nodefile

import (
	"fmt"
	"io"
	"os"
)

// mostRead is how large a node file may be. One with a thousand services has about a
// megabyte; a device that was given by mistake has no end.
const mostRead = 16 << 20

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostRead+1))
	if len(data) > mostRead {
		return nil, fmt.Errorf("%s is larger than %d MiB; give the path of the node file with --node-file", path, mostRead>>20)
	}
	return data, err
}
