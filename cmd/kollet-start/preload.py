# Imports the modules of a Python service, waits at the gate, and then runs the
# service's script in this process, as `python3 SCRIPT` would. If that is not
# possible, it executes the service at the open gate instead.
#
# kollet-start runs this with the service's own interpreter, with the name
# `settings` defined; preload.go describes them. It runs in a namespace of its own,
# so that __main__ is the script's. eventlet replaces functions of the standard
# library while modules are imported, and a module may change the process: everything
# that is used later is looked up here.

import _signal
import os
import select
import sys

close, execve, fchdir, leave, listdir, read, umask, waitpid, write = os.close, os.execve, os.fchdir, os._exit, os.listdir, os.read, os.umask, os.waitpid, os.write
poll, POLLIN, stderr = select.poll, select.POLLIN, 2
script = os.fsdecode(settings["script"])
ONLY_AST = 0x400  # PyCF_ONLY_AST, ast(3): without the module ast, which imports many others
EXIT_GATE = 74    # gate.ExitGate
TICK = 100        # milliseconds between two checks of the gate if no wake-up arrives


def note(text):
    try:
        write(stderr, ("kollet-start: " + text + "\n").encode("utf-8", "backslashreplace"))
    except OSError:  # a module closed it
        pass


def contents(path):
    with open(path, "rb") as f:
        return f.read()


# ---- Signals. kollet-start has blocked those that end a waiting container.

def exit_on(signals):
    def handler(number, frame):
        leave(128 + number)
    for s in signals:
        before[s] = _signal.getsignal(s)
        if before[s] != _signal.SIG_IGN:
            _signal.signal(s, handler)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, settings["blocked"])
    return handler


def take_signals(handler):
    """At the gate they end the container. A module that has set its own handler gets
    it back when the gate is open."""
    for s, old in before.items():
        now = _signal.getsignal(s)
        if now is not handler and now is not None and old != _signal.SIG_IGN:
            before[s] = now
            _signal.signal(s, handler)


def restore_signals(handler):
    for s, old in before.items():
        if _signal.getsignal(s) is handler:
            _signal.signal(s, old)


def ignored_signals():
    return {s for s in range(1, _signal.NSIG) if _signal.getsignal(s) == _signal.SIG_IGN}


before = {}


# ---- What the service imports.

def imports_of(body):
    """The imports at the beginning of a script, up to the first statement that may
    change what the next import means."""
    found = []
    for node in body:
        kind = type(node).__name__
        if kind == "Import":
            found += [(alias.name, ()) for alias in node.names]
        elif kind == "ImportFrom" and node.level == 0:
            found.append((node.module, tuple(alias.name for alias in node.names)))
        elif kind in ("Expr", "Assign") and type(node.value).__name__ in ("Constant", "Str", "Num", "NameConstant"):
            continue
        else:
            break
    return found


def preload(source):
    for name, names in imports_of(compile(source, script, "exec", ONLY_AST, True).body):
        __import__(name, {"__name__": "__main__"}, None, names, 0)
    absent = []
    done = watch_configuration()
    for name in settings["modules"]:
        package = name[:-2] if name.endswith(".*") else name
        try:
            __import__(package)
        except ImportError as e:
            if e.name is None or not (package + ".").startswith(e.name + "."):
                raise
            absent.append(name)  # another release of the service
            continue
        for below in modules_in(package) if name != package else ():
            __import__(below)
    done()
    if absent:
        note("preload: not in this image: " + ", ".join(absent))


def watch_configuration():
    """Watches oslo.config: a service reads its configuration when it starts, so a
    module that needs a value when it is imported must not be imported before. Those
    that the script imports are: it would import them then, too."""
    options = getattr(sys.modules.get("oslo_config.cfg"), "ConfigOpts", None)
    get = getattr(options, "_get", None)
    if get is None:
        return lambda: None
    values = []

    def watched(self, name, *args, **kwargs):
        values.append(name)
        return get(self, name, *args, **kwargs)

    def done():
        options._get = get
        if values:
            raise RuntimeError("a module reads %s from the configuration when it is imported" % values[0])

    options._get = watched
    return done


def modules_in(package):
    """The modules directly in a package; not its packages, which may be tests."""
    return sorted(
        package + "." + name[:-3]
        for path in sys.modules[package].__path__ for name in listdir(path)
        if name.endswith(".py") and not name.startswith("_"))


def sockets():
    links = []
    for fd in listdir("/proc/self/fd"):
        try:
            links.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:  # the descriptor of this list
            pass
    return {link for link in links if link.startswith("socket:")}


# ---- The gate, as in gate.go.

def report_ready():
    """kollet-start's reporter creates the file: it is root, and ends then."""
    try:
        write(settings["reporter_fd"], b"ready")
        close(settings["reporter_fd"])
        if waitpid(settings["reporter"], 0)[1] != 0:
            leave(EXIT_GATE)  # it has said why
    except ChildProcessError:  # a module ignores SIGCHLD
        pass
    except BrokenPipeError:
        note("preload: the reporter exited")
        leave(EXIT_GATE)
    except OSError as e:  # a module closed the pipe
        note("preload: %s" % e)
        leave(EXIT_GATE)


def wait_open():
    wake = poll()
    wake.register(settings["fifo"], POLLIN)
    while settings["open"] not in listdir(settings["gate"]):
        if wake.poll(TICK):
            read(settings["fifo"], 64)
    close(settings["fifo"])
    close(settings["gate"])


# ---- How the service starts.

def process_at_start():
    """What modules may change of a process, and execve(2) keeps."""
    mask = umask(0o077)
    umask(mask)
    try:
        directory = os.open(".", os.O_PATH | os.O_CLOEXEC)
    except OSError:  # the user cannot return to it
        directory = None
    return directory, mask, _signal.pthread_sigmask(_signal.SIG_BLOCK, []), ignored_signals()


def execute():
    """Replaces this process: the plain start."""
    directory, mask, blocked, ignored = process
    if directory is not None:
        fchdir(directory)
    umask(mask)
    # Python ignores these two.
    for s in (ignored_signals() - ignored) | {_signal.SIGPIPE, _signal.SIGXFSZ}:
        _signal.signal(s, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)
    execve(settings["program"], settings["argv"], environment)


def give_up(reason):
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    note("preload: " + " ".join(str(reason).split()) + "; starting without it")
    take_signals(stop)
    report_ready()
    wait_open()
    restore_signals(stop)
    execute()


def become_script():
    restore_signals(stop)
    if process[0] is not None:
        close(process[0])
    rename()
    try:
        exec(program, main)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as e:  # print it without the frames of this program
        trace = e.__traceback__
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        sys.excepthook(type(e), e.with_traceback(trace), trace)
        sys.exit(1)


def rename():
    """Makes the process look like the script in ps and /proc/PID/cmdline."""
    try:
        if settings["comm"]:
            with open("/proc/self/comm", "wb") as f:
                f.write(settings["comm"])
        # Fields 48 and 49 of proc(5), behind a name that may contain spaces.
        stat = contents("/proc/self/stat").rsplit(b")", 1)[1].split()
        start, end = int(stat[45]), int(stat[46])
        line = settings["cmdline"]
        if end - start == len(line):
            with open("/proc/self/mem", "r+b", buffering=0) as f:
                f.seek(start)
                f.write(line)
    except (OSError, ValueError, IndexError):
        pass  # it only looks different


def prepare_main():
    """Sets what a script sees of itself: modules may look at it too."""
    main = sys.modules["__main__"]
    main.__file__ = script
    main.__loader__ = type(main.__loader__)("__main__", script)
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    sys.argv[0] = script
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [os.fsdecode(word) for word in settings["cmdline"].split(b"\0")[:-1]]
    return main.__dict__


def environment_at_start():
    pairs = [pair.partition(b"=") for pair in contents("/proc/self/environ").split(b"\0") if b"=" in pair]
    return {key: value for key, _, value in pairs}


def on_alarm(number, frame):
    # A signal that ends the container may have come before: Python calls the handlers
    # of all that are pending, this one first, and looks for more only when another
    # signal arrives.
    _signal.signal(_signal.SIGALRM, lambda number, frame: None)
    _signal.raise_signal(_signal.SIGALRM)
    give_up("the imports took longer than %d s" % settings["limit"])


close(settings["self"])
environment = environment_at_start()
stop = exit_on(settings["signals"])
process = process_at_start()
alarm = _signal.signal(_signal.SIGALRM, on_alarm)
_signal.setitimer(_signal.ITIMER_REAL, settings["limit"])
try:
    main = prepare_main()
    known = sockets()
    # Now: a module may change the directory to which the script's path is relative.
    source = contents(script)
    program = compile(source, script, "exec", 0, True)
    preload(source)
    if len(listdir("/proc/self/task")) > 1:
        note("preload: a module started threads when it was imported")
    if sockets() - known:
        note("preload: a module opened a socket when it was imported")
except BaseException as e:
    give_up("%s: %s" % (type(e).__name__, e))
_signal.setitimer(_signal.ITIMER_REAL, 0)
if _signal.getsignal(_signal.SIGALRM) is on_alarm:
    _signal.signal(_signal.SIGALRM, alarm)
take_signals(stop)
report_ready()
wait_open()
become_script()
