// Package wording checks that retired words stay out of the tree. The words and
// what to write instead are in retired.txt; docs/glossary.md has the terms.
package wording
