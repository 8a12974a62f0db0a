// Tiny is a minimal service for tests and benchmarks: it answers every connection to an
// address with one line, and can misbehave in several ways.
//
//	tiny serve ADDRESS [FILE [DELAY]]
//	                            answers with its process id and FILE's first line, and takes
//	                            DELAY to stop; takes memory without end after SIGUSR1
//	tiny fail TEXT [FILE]       prints TEXT and FILE, and exits with status 3
//	tiny sulk ADDRESS           runs, but does not listen
//	tiny leave ADDRESS DELAY    answers once, and exits with status 4 after DELAY
//	tiny jam FILE [ADDRESS]     writes to FILE all the time, and answers
//	tiny ask ADDRESS            prints the answer of a service; used as a probe
//	tiny host ADDRESS UUID      answers, and starts a process that looks like a guest, and the
//	                            guest's helpers; with another UUID also in its last moment
//	tiny impostor ADDRESS PROGRAM UUID
//	                            answers, and starts a guest without privileges that says it is
//	                            PROGRAM, which it wrote itself
//	tiny guest UUID             starts the same processes, and ends
//	tiny breed ADDRESS FILE DIRECTORY UUID
//	                            answers, and starts guests as the files of DIRECTORY order it
//	tiny under wait|leave PROGRAM ARGUMENT…
//	                            starts tiny with these arguments as its child
//	tiny say TEXT…              prints each TEXT on a line
//	tiny headless ADDRESS       answers, but its first thread has exited
//	tiny stay                   runs and ignores all signals except SIGKILL
//	tiny fill FILE [again]      writes to FILE until the disk is full, and does not listen;
//	                            with "again" it also takes what becomes free later
//	tiny flood                  prints without end
//	tiny litter DIRECTORY       moves a directory there that processes fill without end, and
//	                            leaves them behind
//	tiny respawn ADDRESS DIRECTORY
//	                            answers, and leaves processes behind that start each other again
//	sudo [-E] PROGRAM ARGUMENT…
//	                            runs a program as root
//	dumb-init --single-child -- PROGRAM ARGUMENT…
//	                            starts a program as its child, and exits with it
//	tiny plant KIND PATH [TARGET [COMMAND...]]
//	                            replaces PATH, and continues as tiny COMMAND
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() { //nolint:gochecknoinits // main runs on the first thread only if that is locked here
	if len(os.Args) > 1 && os.Args[1] == "headless" {
		runtime.LockOSThread()
	}
}

func main() {
	if strings.HasPrefix(filepath.Base(os.Args[0]), guestName) {
		confess()
		guest(os.Args[len(os.Args)-1] == alone)
	}
	if serve := helpers[os.Args[0]]; serve != nil {
		check(os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0))
		serve()
		return
	}
	if filepath.Base(os.Args[0]) == "sudo" {
		sudo(slices.DeleteFunc(os.Args[1:], func(arg string) bool { return arg == "-E" }))
		return
	}
	if filepath.Base(os.Args[0]) == "dumb-init" {
		dumbInit(os.Args[1:])
	}
	run(os.Args[1:])
}

// sudo runs a command as root, if the program has the set-user-ID bit.
func sudo(command []string) {
	check(syscall.Setuid(0))
	program, err := exec.LookPath(command[0])
	check(err)
	check(syscall.Exec(program, command, os.Environ()))
}

func run(args []string) {
	args = append(args, "", "", "", "")
	switch args[0] {
	case "host":
		host(args[2])
		if args[3] == "" {
			serve(args[1], "")
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		go serve(args[1], "")
		<-end
		host(args[3])
	case "impostor":
		impostor(args[2], args[3])
		serve(args[1], "")
	case "leave-behind": // a daemon
		daemon := exec.Command("/proc/self/exe")
		daemon.Args = args[1:4]
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		check(daemon.Start())
	case "guest":
		host(args[1])
	case "breed":
		breed(args[1], args[2], args[3], args[4])
	case "under":
		under(args[1], os.Args[3:])
	case "say":
		fmt.Println(strings.Join(os.Args[2:], "\n"))
	case "serve":
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
		go serve(args[1], args[2])
		<-end
		if args[3] != "" {
			fmt.Println("tiny takes its time to stop")
			delay, err := time.ParseDuration(args[3])
			check(err)
			time.Sleep(delay)
		}
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
		go answerOnce(args[1])
		time.Sleep(delay)
		fmt.Println("tiny leaves")
		os.Exit(4)
	case "jam":
		runtime.LockOSThread() // if the first thread were to write, it would keep the arguments when it is killed
		go jam(args[1])
		if args[2] != "" {
			go serve(args[2], "")
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end
	case "headless":
		go run([]string{"serve", args[1]})
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // this thread alone, _exit(2)
	case "ask":
		ask(args[1])
	case "stay":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		time.Sleep(time.Hour)
	case "fill":
		fill(args[1], args[2] == "again")
	case "flood":
		for {
			_, err := os.Stdout.Write(make([]byte, 64<<10))
			check(err)
		}
	case "litter":
		litter(args[1])
	case "respawn": // ADDRESS DIRECTORY
		leave("respawner", args[2], "0", strconv.FormatInt(time.Now().Add(3*time.Minute).Unix(), 10))
		run([]string{"serve", args[1]})
	case "respawner":
		respawner(args[1], args[2], args[3])
	case "litterer":
		litterer(args[1])
	case "plant":
		check(os.RemoveAll(args[2]))
		check(plant(args[1], args[2], args[3]))
		if args[4] != "" {
			run(args[4:])
		}
	default:
		fmt.Fprintln(os.Stderr, "tiny: expected serve, fail, sulk, leave, jam, headless, ask, host, impostor, guest, breed, under, say, stay, fill, flood, litter, respawn or plant")
		os.Exit(2)
	}
}

// plant puts something where kollet expects a file.
func plant(kind, path, target string) error {
	switch kind {
	case "link":
		return os.Symlink(target, path)
	case "fifo":
		return syscall.Mkfifo(path, 0o666)
	case "zero": // the device /dev/zero
		return syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|5)
	case "directory":
		return os.MkdirAll(path+"/below", 0o755)
	case "endless": // a file that is larger than any memory, without a block on disk
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(1 << 43)
	case "text":
		return os.WriteFile(path, []byte(target), 0o600)
	}
	return fmt.Errorf("plant: unknown kind %q", kind)
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
	go hoard()
	fmt.Println("tiny serves at", address)
	answer := fmt.Sprintf("%d %s\n", os.Getpid(), strings.TrimSpace(word))
	for {
		conn, err := listener.Accept()
		check(err)
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}
}

// answerOnce does not answer a second time, however long the exit takes on a busy machine.
func answerOnce(address string) {
	listener, err := net.Listen("tcp", address)
	check(err)
	conn, err := listener.Accept()
	check(err)
	check(listener.Close())
	_, _ = fmt.Fprintln(conn, os.Getpid())
	_ = conn.Close()
}

// jam writes to a file all the time: it hangs in the kernel while the file system is
// frozen.
func jam(path string) {
	for {
		check(os.WriteFile(path, []byte("x"), 0o600))
		time.Sleep(20 * time.Millisecond)
	}
}

// hoard takes memory without end after SIGUSR1.
func hoard() {
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	<-begin
	all := map[int][]byte{}
	for n := 0; ; n++ {
		all[n] = bytes.Repeat([]byte{1}, 1<<20)
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

func fill(path string, again bool) {
	file, err := os.Create(path)
	check(err)
	for block := make([]byte, 1<<20); ; {
		n, err := file.Write(block)
		switch {
		case err == nil:
		case n == 0 && len(block) > 1:
			block = block[:len(block)/2]
		case n == 0 && again:
			time.Sleep(time.Millisecond)
		case n == 0:
			fmt.Println("the disk is full:", err)
			time.Sleep(time.Hour)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tiny:", err)
		os.Exit(1)
	}
}
