package main

import "errors"

// value is a value of config.json.
type value struct {
	kind    kind
	yes     bool     // of a boolean
	text    string   // of a string
	items   []value  // of a list
	members []member // of an object, in the file's order
}

type member struct {
	key   string
	value value
}

type kind byte

const (
	isNull kind = iota
	isBool
	isNumber // its value is not needed: no key takes one
	isText
	isList
	isObject
)

func (v value) asText() (string, error) {
	if v.kind != isText {
		return "", errors.New("expected a string")
	}
	return v.text, nil
}

func (v value) asBool() (bool, error) {
	if v.kind != isBool {
		return false, errors.New("expected true or false")
	}
	return v.yes, nil
}

func (v value) asList() ([]value, error) {
	if v.kind != isList {
		return nil, errors.New("expected a list")
	}
	return v.items, nil
}

func (v value) asObject() ([]member, error) {
	if v.kind != isObject {
		return nil, errors.New("expected an object")
	}
	return v.members, nil
}
