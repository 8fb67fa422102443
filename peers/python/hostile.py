"""Hostile ONNX models: mutants of the node tests of the onnx package and of `hostile_models`, each given to a worker of the program.

    conformance.py hostile --data DIR --count N [--seed S] [--first I] -- TVMC worker conformance --target T

Mutant `i` depends on the seed and on `i` alone. A mutant passes when it is refused or when it runs, within 10 s of processor
time and 2 GB of memory, without a panic, and without a read of the file that lies outside of its folder. What its outputs are
does not count. Mutants that fail are kept in DIR/hostile, with a file that says what was changed and what happened.
"""
import collections, ctypes, ctypes.util, json, multiprocessing, os, queue, random, re, resource, shutil, sys, tempfile, time

import mutate
import mutate_consistent  # noqa: F401  (registers its mutations)
import mutate_graph  # noqa: F401
import mutate_values  # noqa: F401
from conformance import Worker, load_index
from hostile_models import extra_models

SECONDS, WAIT, BYTES = 10, 300, 2 << 30
JOBS = 2
SECRET = bytes(range(64, 128)) * 64
KEPT = 10  # mutants of one kind that are kept
FAILED = ("panic", "crash", "time-out", "memory", "outside file read")
LARGEST = 1 << 17  # bytes of a test that is mutated


class LimitedWorker(Worker):
    """A worker whose processor time and memory are bounded for every case."""

    def start(self):
        super().start()
        pid = self.process.pid
        # What is reserved without being used counts less than what is used, which `over` looks at.
        resource.prlimit(pid, resource.RLIMIT_AS, (4 * BYTES, 4 * BYTES))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        self.used, self.peak = 0.0, 0

    def seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def memory(self, key):
        found = re.search(rf"^{key}:\s+(\d+) kB", open(f"/proc/{self.process.pid}/status").read(), re.M)
        return int(found[1]) * 1024 if found else 0

    def begin(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")
        self.before = self.seconds()

    def over(self, waited):
        self.used = self.seconds() - self.before
        self.peak = self.memory("VmHWM")
        if self.peak > BYTES:
            return {"status": "memory", "msg": f"{self.peak >> 20} MiB"}
        if self.used > SECONDS or waited > WAIT:
            return {"status": "time-out", "msg": f"{self.used:.1f} s of processor time in {waited:.1f} s"}
        return None

    def end(self, answer):
        """Looks once more at what the case took, and ends a worker that keeps much memory."""
        if self.process is None:
            return answer
        answer = self.over(0) or answer
        if self.memory("VmRSS") > BYTES // 4:
            self.stop()
        return answer


class Watch:
    """Says whether a file was read (inotify)."""

    ACCESS = 1

    def __init__(self, path):
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, path.encode(), self.ACCESS) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def fired(self):
        try:
            return bool(os.read(self.fd, 4096))
        except BlockingIOError:
            return False


def bases(args):
    """Models to mutate by operator: name, bytes and inputs of each."""
    res = collections.defaultdict(list)
    root, index = load_index(args)
    for it in index:
        folder = os.path.join(root, it["name"])
        data = os.path.join(folder, "test_data_set_0")
        model = open(os.path.join(folder, "model.onnx"), "rb").read()
        inputs = {}
        for j in range(len(it["kinds"][0])):
            path = os.path.join(data, f"input_{j}.pb")
            if os.path.exists(path):
                inputs[j] = open(path, "rb").read()
        if len(model) + sum(map(len, inputs.values())) <= LARGEST:
            res[it["op"]].append((it["name"], model, inputs))
    for name, (model, inputs) in extra_models():
        res[name].append((name, model, inputs))
    return dict(sorted(res.items()))


def make(seed, i, by_op, donors):
    """Mutant `i`, and the name of what it is made of."""
    rng = random.Random(f"{seed}/{i}")
    while True:
        group = rng.choice(list(by_op.values())) if rng.random() < 0.6 else [rng.choice(donors)]
        name, model, inputs = rng.choice(group)
        mutant = mutate.Mutant(rng, model, inputs, donors=[it[1] for it in group + [rng.choice(donors) for _ in range(8)]])
        if not mutate.mutate(mutant, rng.choice([1, 1, 2, 2, 3, 4])):
            continue
        try:
            return name, mutant, mutant.serialized()
        except (ValueError, RuntimeError, mutate.EncodeError):  # The library writes no more than 100 nested messages.
            continue


def write(folder, model, mutant, secret):
    shutil.rmtree(folder, ignore_errors=True)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    save = lambda path, content: open(path, "wb").write(content)
    save(os.path.join(folder, "model.onnx"), model)
    for j, content in mutant.inputs.items():
        save(os.path.join(data, f"input_{j}.pb"), content)
    for name, content in mutant.files.items():
        path = os.path.join(folder, name)
        if isinstance(content, bytes):
            save(path, content)
        elif content[0] == "hard":
            os.link(secret, path)
        elif content[0] == "fifo":
            os.mkfifo(path)
        else:
            os.symlink(os.path.dirname(secret) if content[0] == "linkdir" else secret, path)


def judge(worker, folder, watch, log):
    """Status of a case, with a message and where it failed."""
    answer = worker.end(worker.ask(f"{folder}/case\t{folder}/output\n", WAIT))
    said = log.read().decode(errors="replace")
    status, message = answer.get("status"), answer.get("msg", "")
    if "panicked at" in said:
        place = re.search(r"panicked at ([^\s]+)", said)[1].rstrip(":")
        return "panic", said.strip()[:2000], place
    if status == "crash":
        memory = "memory allocation of" in said or "out of memory" in said.lower()
        return "memory" if memory else "crash", f"{message}\n{said.strip()}"[:2000], said.strip()[:80] or message
    if watch.fired():
        return "outside file read", f"{status}: {message}", "a file outside of the model's folder"
    if status in FAILED:
        return status, message, ""
    return ("ran" if status == "ok" else "refused"), f"{answer.get('phase')}: {message}", ""


def serve(args, job, by_op, results):
    """Makes and tries every `JOBS`th mutant."""
    donors = [it for group in by_op.values() for it in group]
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hostile_", dir=shared) as folder:
        secret = os.path.join(folder, "secret", "secret.bin")
        os.mkdir(os.path.dirname(secret))
        open(secret, "wb").write(SECRET)
        watch, said = Watch(secret), os.path.join(folder, "stderr")
        os.environ.update(TVM_NUM_THREADS="1", XDG_CACHE_HOME=os.path.join(folder, "cache"))
        with open(said, "wb") as err, open(said, "rb") as log:
            worker = LimitedWorker(args.command, err, cwd=folder)
            for i in range(args.first + job, args.first + args.count, JOBS):
                base, mutant, model = make(args.seed, i, by_op, donors)
                write(os.path.join(folder, "case"), model, mutant, secret)
                shutil.rmtree(os.path.join(folder, "output"), ignore_errors=True)
                begin = time.time()
                status, message, place = judge(worker, folder, watch, log)
                if status in FAILED:
                    worker.stop()
                    place = place or mutant.log[-1]
                    text = {"seed": args.seed, "case": i, "base": base, "mutations": mutant.log, "status": status, "message": message}
                    keep(args, folder, status, place, i, text)
                results.put((status, place, i, worker.used, worker.peak, time.time() - begin))
            worker.stop()
    results.put(None)


KEPT_SO_FAR = collections.Counter()


def keep(args, folder, status, place, i, text):
    KEPT_SO_FAR[status, place] += 1
    if KEPT_SO_FAR[status, place] > KEPT:
        return
    target = os.path.join(args.data, "hostile", f"{args.seed}-{i}-{status.replace(' ', '-')}")
    shutil.rmtree(target, ignore_errors=True)
    ignore = lambda where, names: [it for it in names if os.path.islink(os.path.join(where, it)) or not (os.path.isfile(os.path.join(where, it)) or os.path.isdir(os.path.join(where, it)))]
    shutil.copytree(os.path.join(folder, "case"), target, ignore=ignore)
    json.dump(text, open(os.path.join(target, "mutant.json"), "w"), indent=1)


def report(args, counts, failures, slowest, largest, seconds):
    total = sum(counts.values())
    print(f"seed {args.seed}, target {args.command[-1]}: {total} mutants in {seconds:.0f} s, {total / max(seconds, 1e-9):.0f} per second")
    names = ["ran", "refused", *FAILED]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    print("| " + " | ".join(str(counts[it]) for it in names) + " |")
    print(f"slowest: {slowest[0]:.1f} s of processor time (mutant {slowest[1]}); largest: {largest[0] >> 20} MiB (mutant {largest[1]})")
    for (status, place), cases in sorted(failures.items(), key=lambda it: -len(it[1])):
        print(f"{status}, {len(cases)} times: {place}; mutants {', '.join(map(str, cases[:KEPT]))}")
    if failures:
        print(f"kept in {os.path.join(args.data, 'hostile')}; one mutant again: `--hostile 1 --seed {args.seed} --first MUTANT`")


def hostile(args):
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    begin, by_op = time.time(), bases(args)
    print(f"seed {args.seed}: mutants of {sum(map(len, by_op.values()))} models", flush=True)
    results = multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=serve, args=(args, job, by_op, results)) for job in range(JOBS)]
    for job in jobs:
        job.start()
    counts, failures = collections.Counter(), collections.defaultdict(list)
    slowest, largest, running, shown = (0.0, None), (0, None), len(jobs), time.time()
    while running:
        try:
            result = results.get(timeout=5)
        except queue.Empty:
            if any(job.is_alive() for job in jobs):
                continue
            break
        if result is None:
            running -= 1
            continue
        status, place, i, used, peak, _ = result
        counts[status] += 1
        slowest, largest = max(slowest, (used, i), key=lambda it: it[0]), max(largest, (peak, i), key=lambda it: it[0])
        if status in FAILED:
            failures[status, place].append(i)
            print(f"{status}: mutant {i}: {place}", flush=True)
        if sys.stdout.isatty() and time.time() > shown + 1:
            shown = time.time()
            print(f"\r{sum(counts.values())} of {args.count}", end="\r", flush=True)
    for job in jobs:
        job.join()
    report(args, counts, failures, slowest, largest, time.time() - begin)
    lost = args.count - sum(counts.values())
    if lost:
        print(f"{lost} mutants were not tried: the script failed")
    return 1 if failures or lost else 0
