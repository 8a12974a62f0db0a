package userdata

// Check returns user-data as a server receives it, without base64, and what
// cloud-init would reject in it.
func Check(name string, data []byte) ([]byte, error) {
	m, _, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	return m.Data, m.Problems(name)
}

// Join returns user-data with a cloud-config before given, which may be nil. It
// does not change the parts of given.
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
	if m.Format == Multipart { // kept whole, with headers that kollet does not know
		return compose([]Part{first, {Type: "multipart/mixed", Data: m.plain}}), nil
	}
	p := m.Parts[0]
	p.Name = "01-" + plainName(name)
	if p.Type == CloudConfigType && !mergesItself(p.Data) {
		p.Merge = mergeLists
	}
	return compose([]Part{first, p}), nil
}
