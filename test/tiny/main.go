// Tiny is a minimal service for tests and benchmarks: it answers every connection to an
// address with one line, and can misbehave in several ways.
//
//	tiny serve ADDRESS [FILE]   answers with its process id and FILE's first line
//	tiny fail TEXT [FILE]       prints TEXT and FILE, and exits with status 3
//	tiny sulk ADDRESS           runs, but does not listen
//	tiny leave ADDRESS DELAY    answers, and exits with status 4 after DELAY
//	tiny ask ADDRESS            prints the answer of a service; used as a probe
//	tiny stay                   runs and ignores all signals except SIGKILL
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := append(os.Args[1:], "", "", "")
	switch args[0] {
	case "serve":
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
		go serve(args[1], args[2])
		<-end
	case "fail":
		fmt.Println(args[1])
		if args[2] != "" {
			text, err := os.ReadFile(args[2])
			check(err)
			fmt.Print(string(text))
		}
		os.Exit(3)
	case "sulk":
		time.Sleep(time.Hour)
	case "leave":
		delay, err := time.ParseDuration(args[2])
		check(err)
		go serve(args[1], "")
		time.Sleep(delay)
		fmt.Println("tiny leaves")
		os.Exit(4)
	case "ask":
		ask(args[1])
	case "stay":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		time.Sleep(time.Hour)
	default:
		fmt.Fprintln(os.Stderr, "tiny: expected serve, fail, sulk, leave, ask or stay")
		os.Exit(2)
	}
}

func serve(address, file string) {
	listener, err := net.Listen("tcp", address)
	check(err)
	word := ""
	if file != "" {
		f, err := os.Open(file)
		check(err)
		word, _ = bufio.NewReader(f).ReadString('\n')
		check(f.Close())
	}
	fmt.Println("tiny serves at", address)
	answer := fmt.Sprintf("%d %s\n", os.Getpid(), strings.TrimSpace(word))
	for {
		conn, err := listener.Accept()
		check(err)
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}
}

func ask(address string) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	check(err)
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	check(err)
	fmt.Print(string(answer))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tiny:", err)
		os.Exit(1)
	}
}
