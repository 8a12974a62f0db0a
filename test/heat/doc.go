// Package heat has OpenStack Heat's own engine read the templates of
// playbooks/heat, and kollet read the user-data that Heat makes of them.
package heat
