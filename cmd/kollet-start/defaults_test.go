package main

import (
	"encoding/json"
	"testing"
)

func TestQuote(t *testing.T) {
	const text = "/ä \"\\\n\a\x7f😀\U000e0001"
	got := quote(text)
	if want := `"/\u00e4 \"\\\u000a\u0007\u007f\ud83d\ude00\udb40\udc01"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var read string
	if err := json.Unmarshal([]byte(got), &read); err != nil || read != text {
		t.Errorf("%s is read as %q: %v", got, read, err)
	}
}
