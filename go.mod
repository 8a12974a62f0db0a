module github.com/kollet/kollet

go 1.26
