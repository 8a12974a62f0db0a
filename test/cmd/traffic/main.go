// Command traffic measures what an upgrade does to packets between two ports of a switch,
// each of which is an interface eth0 in a network namespace:
//
//	traffic answer NETNS                  answers what measure sends, until it is killed
//	traffic measure NETNS PEER GATEWAY    sends until SIGTERM, then prints a Report as JSON
//
// PEER is the address of the port that answers, and GATEWAY one that the switch itself
// answers for.
package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: traffic answer NETNS
       traffic measure NETNS PEER GATEWAY`

func main() {
	args := os.Args[1:]
	var err error
	switch {
	case len(args) == 2 && args[0] == "answer":
		err = answer(args[1])
	case len(args) == 4 && args[0] == "measure":
		err = measured(args[1], args[2], args[3])
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

func measured(netns, peer, gateway string) error {
	to, err := netip.ParseAddr(peer)
	if err != nil {
		return fmt.Errorf("read the address of the peer: %w", err)
	}
	by, err := netip.ParseAddr(gateway)
	if err != nil {
		return fmt.Errorf("read the address of the gateway: %w", err)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	report, err := measure(netns, to, by, end)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}
