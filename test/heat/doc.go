// Package heat tests the templates of playbooks/heat: OpenStack Heat's own engine
// reads them, and kollet reads the user-data that Heat creates from them.
package heat
