package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// value is a value of config.json.
type value struct{ *fastjson.Value }

type member struct {
	key   string
	value value
}

// parseJSON refuses everything that is not JSON, as Python does.
func parseJSON(data []byte) (value, error) {
	if !utf8.Valid(data) {
		return value{}, fmt.Errorf("%s: this is not UTF-8", position(data, bytes.IndexRune(data, utf8.RuneError)))
	}
	v, err := fastjson.ParseBytes(data) // it limits the depth, which ValidateBytes does not
	if err == nil {
		err = fastjson.ValidateBytes(data)
	}
	if err != nil || bytes.IndexByte(data, '\\') >= 0 {
		if at := endOfStrings(data); at < len(data) {
			return value{}, fmt.Errorf("%s: the string is not closed, or contains a control character, an unknown escape or half of a surrogate pair", position(data, at))
		}
	}
	return value{v}, err
}

// endOfStrings returns where the first string begins that is not JSON, or the end of
// data. fastjson overlooks control characters before an escape, and keeps half of a
// surrogate pair as it is written.
func endOfStrings(data []byte) int {
	stringsOf := regexp.MustCompile(`^(?:[^"]|"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:` +
		`[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*")*`)
	return stringsOf.FindIndex(data)[1]
}

// position returns the line and the column of an offset, as editors count them.
func position(data []byte, offset int) string {
	before := data[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line, column)
}

func (v value) asText() (string, error) {
	text, err := v.StringBytes()
	if err == nil {
		return string(text), nil
	}
	switch v.Type() {
	case fastjson.TypeNumber:
		return "", errors.New("expected a string, found a number; put it in quotes")
	case fastjson.TypeTrue, fastjson.TypeFalse:
		return "", errors.New("expected a string, found true or false; put it in quotes")
	default:
		return "", errors.New("expected a string")
	}
}

func (v value) asBool() (bool, error) {
	yes, err := v.Bool()
	if err != nil {
		return false, errors.New("expected true or false")
	}
	return yes, nil
}

func (v value) asList() ([]value, error) {
	items, err := v.Array()
	if err != nil {
		return nil, errors.New("expected a list")
	}
	list := make([]value, len(items))
	for i, item := range items {
		list[i] = value{item}
	}
	return list, nil
}

// asObject returns the members in the file's order.
func (v value) asObject() ([]member, error) {
	object, err := v.Object()
	if err != nil {
		return nil, errors.New("expected an object")
	}
	var members []member
	object.Visit(func(key []byte, v *fastjson.Value) {
		members = append(members, member{string(key), value{v}})
	})
	return members, nil
}
