"""Steps of a training that says nothing about them: told by the libraries it uses, when and if it imports them.

Started by ``sitecustomize.py`` beside this. The one invariant: the training does the same with it as without. Nothing is
imported, wrapped functions keep their results, errors and attributes, and a mistake in here is swallowed.
"""

import functools
import os
import sys
import threading
import time

_OWNER = "NILO_STEPS_PID"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


class Counter(object):
    """Numbers the steps of this process and writes their marks."""

    def __init__(self):
        self.marks = os.path.abspath(os.environ["NILO_MARKS"])
        self.number = 0
        self.lock = threading.Lock()
        self.local = threading.local()

    def step(self):
        try:
            if not self.is_ours():
                return
            with self.lock:
                self.number += 1
                line = "step %d pid=%d ns=%d\n" % (self.number, os.getpid(), time.monotonic_ns())
                descriptor = os.open(self.marks, _FLAGS)
                try:
                    os.write(descriptor, line.encode())
                finally:
                    os.close(descriptor)
        except Exception:
            pass

    def is_ours(self):
        """Workers of a process that counts steps do not count theirs: a search over forests has one step a forest."""
        own = str(os.getpid())
        owner = os.environ.get(_OWNER)
        if owner != own and owner and os.path.exists("/proc/" + owner):
            return False
        if owner != own:
            os.environ[_OWNER] = own
            self.number = 0
        return True

    def announce(self):
        """The output need not be read for steps any more."""
        try:
            os.close(os.open(self.marks + ".hooked", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except Exception:
            pass

    def outermost(self, function):
        """Wraps a function: each call that is in no other call of such a function is a step, when it has ended."""

        @functools.wraps(function)
        def counted(*args, **kwargs):
            depth = getattr(self.local, "depth", 0)
            if not depth:
                self.is_ours()
            self.local.depth = depth + 1
            try:
                return function(*args, **kwargs)
            finally:
                self.local.depth = depth
                if not depth:
                    self.step()

        counted.__nilo__ = True
        return counted

    def quiet(self, function):
        """Wraps a function in which no call is a step: it only looks at what would happen."""

        @functools.wraps(function)
        def called(*args, **kwargs):
            depth = getattr(self.local, "depth", 0)
            self.local.depth = depth + 1
            try:
                return function(*args, **kwargs)
            finally:
                self.local.depth = depth

        return called


class Leader(object):
    """Of several optimizers one counts: the first, until another has worked long without it."""

    PATIENCE = 16

    def __init__(self):
        self.leader = None
        self.others = {}

    def counts(self, optimizer):
        own = id(optimizer)
        if self.leader is None or own == self.leader:
            self.leader = own
            self.others.clear()
            return True
        alone = self.others[own] = self.others.get(own, 0) + 1
        if alone >= self.PATIENCE:
            self.leader = own
            self.others.clear()
            return True
        return False


def hook_torch(counter, module):
    leader = Leader()

    def after(optimizer, *_):
        if leader.counts(optimizer):
            counter.step()

    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(after)
    else:
        _hook_old_torch(module.Optimizer, after)


def _hook_old_torch(base, after):
    """Before torch 2.0 there is no such hook: classes are wrapped when the first of their optimizers is made."""
    begin = base.__init__

    def wrap(kind):
        step = kind.step

        @functools.wraps(step)
        def counted(self, *args, **kwargs):
            result = step(self, *args, **kwargs)
            after(self)
            return result

        counted.__nilo__ = True
        kind.step = counted

    @functools.wraps(begin)
    def begun(self, *args, **kwargs):
        try:
            if not getattr(type(self).step, "__nilo__", False):
                wrap(type(self))
        except Exception:
            pass
        return begin(self, *args, **kwargs)

    base.__init__ = begun


def hook_tqdm(counter, module):
    """An iteration is a step when it has ended, unless another bar went on within it: then that one's were steps."""
    bar = module.tqdm
    iterate, update = bar.__iter__, bar.update
    local = threading.local()

    def tick():
        local.ticks = getattr(local, "ticks", 0) + 1
        counter.step()

    @functools.wraps(iterate)
    def counted(self):
        self._nilo_loop = True  # it calls `update` by itself
        before = None
        for element in iterate(self):
            if before is not None and local.ticks == before:
                tick()
            before = local.ticks = getattr(local, "ticks", 0)
            yield element
        if before is not None and local.ticks == before:
            tick()

    @functools.wraps(update)
    def updated(self, n=1):
        result = update(self, n)
        if n == 1 and not getattr(self, "_nilo_loop", False):  # larger ones count bytes
            tick()
        return result

    bar.__iter__, bar.update = counted, updated
    counter.announce()


def hook_keras(counter, module):
    kind = module.CallbackList
    end = kind.on_train_batch_end
    if getattr(end, "__nilo__", False):
        return

    @functools.wraps(end)
    def counted(self, *args, **kwargs):
        result = end(self, *args, **kwargs)
        counter.step()
        return result

    counted.__nilo__ = True
    kind.on_train_batch_end = counted
    counter.announce()


def hook_sklearn(counter, module):
    for kind in list(vars(module).values()):
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        for name in ("fit", "partial_fit", "fit_predict", "fit_transform"):
            function = vars(kind).get(name)
            if callable(function) and not getattr(function, "__nilo__", False):
                setattr(kind, name, counter.outermost(function))


class Jitted(object):
    """A compiled function that is counted; everything else is the function's own."""

    def __init__(self, function, counter):
        object.__setattr__(self, "_nilo", function)
        object.__setattr__(self, "_quiet", counter.quiet)
        object.__setattr__(self, "_call", counter.outermost(lambda *args, **kwargs: function(*args, **kwargs)))
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "__wrapped__", "__signature__"):
            try:
                object.__setattr__(self, name, getattr(function, name))
            except Exception:
                pass

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __getattr__(self, name):
        found = getattr(object.__getattribute__(self, "_nilo"), name)
        return self._quiet(found) if name in ("lower", "trace", "eval_shape") else found

    def __setattr__(self, name, value):
        setattr(self._nilo, name, value)

    def __repr__(self):
        return repr(self._nilo)

    def __hash__(self):
        return hash(self._nilo)

    def __eq__(self, other):
        return self._nilo == getattr(other, "_nilo", other)


def hook_jax(counter, module):
    jit = module.jit

    @functools.wraps(jit)
    def counted(*args, **kwargs):
        made = jit(*args, **kwargs)
        if args and callable(args[0]) or callable(kwargs.get("fun")):
            return Jitted(made, counter)
        return lambda function: Jitted(made(function), counter)  # a decorator with options

    module.jit = counted


# Which modules carry what, by the word of --steps. A name that ends in a dot is of all modules below.
HOOKS = {
    "torch": [("torch.optim.optimizer", hook_torch)],
    "tqdm": [("tqdm.std", hook_tqdm)],
    "keras": [
        ("keras.src.callbacks.callback_list", hook_keras),
        ("keras.src.callbacks", hook_keras),
        ("keras.callbacks", hook_keras),
        ("tensorflow.python.keras.callbacks", hook_keras),
    ],
    "sklearn": [("sklearn.", hook_sklearn)],
    "jax": [("jax", hook_jax)],
}


class Finder(object):
    """Stands in front of the path's finders and says nothing but for the modules that are waited for."""

    def __init__(self, hooks, counter):
        self.hooks = hooks
        self.counter = counter

    def find_spec(self, name, path=None, target=None):
        hook = self.wanted(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                self.listen(spec, hook)
                return spec
        return None

    def wanted(self, name):
        for known, hook in self.hooks:
            if name == known or known.endswith(".") and name.startswith(known):
                return hook
        return None

    def listen(self, spec, hook):
        """The module's own loader stays; it tells us when it is done."""
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None or getattr(type(loader), "__name__", "") in ("ExtensionFileLoader", "NamespaceLoader"):
            return
        counter = self.counter

        def executed(module):
            try:
                del loader.exec_module
            except Exception:
                pass
            execute(module)
            try:
                hook(counter, module)
            except Exception:
                pass

        try:
            loader.exec_module = executed
        except Exception:
            pass


def arm(words):
    hooks = [hook for word in words.split(",") for hook in HOOKS.get(word.strip(), [])]
    if hooks:
        sys.meta_path.insert(0, Finder(hooks, Counter()))
