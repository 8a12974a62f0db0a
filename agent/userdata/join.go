package userdata

// Check returns user-data as a server gets it, without base64, and tells what
// cloud-init would not take of it.
func Check(name string, data []byte) ([]byte, error) {
	m, _, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	return m.Data, m.Problems(name)
}

// Join puts a cloud-config before user-data that exists already; given may be
// nil. What the operator says there stays as it is.
func Join(first Part, name string, given []byte) ([]byte, error) {
	if given == nil {
		return first.Data, nil
	}
	m, _, err := Read(name, given)
	if err != nil {
		return nil, err
	}
	if err := m.Problems(name); err != nil {
		return nil, err
	}
	if m.Format == Multipart { // whole, with headers that kollet does not know
		return compose([]Part{first, {Type: "multipart/mixed", Data: m.plain}}), nil
	}
	p := m.Parts[0]
	p.Name = "01-" + plainName(name)
	if p.Type == CloudConfigType && !mergesItself(p.Data) {
		p.Merge = mergeLists
	}
	return compose([]Part{first, p}), nil
}
