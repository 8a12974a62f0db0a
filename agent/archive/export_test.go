package archive

import (
	"archive/tar"
	"bytes"
)

// ListTar is List for a tar in memory.
func ListTar(data []byte) ([]Image, error) { return list(tar.NewReader(bytes.NewReader(data))) }
