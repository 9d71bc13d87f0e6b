"""A model of a bucket in memory, as S3 and POSIX see it. The test compares the real bucket with
it.

The rules for both views:

* A directory has one table of subdirectories and one table of all other names. A path leads to the
  subdirectory first; the object of the same name is then visible only through S3.
* The object `a/` is an empty name in the directory `a`. An empty directory is listed as `a/` if it
  was created explicitly, or if a program removed its last name.
* A directory that a key implied is removed with its last name if S3 deletes that name. An explicit
  directory stays.
"""

import errno
from dataclasses import dataclass, field


class Refused(Exception):
    """A program's operation that must fail, with its allowed error numbers."""

    def __init__(self, *numbers):
        super().__init__(", ".join(errno.errorcode[number] for number in numbers))
        self.numbers = numbers


@dataclass(eq=False)
class File:
    """The content to which one or more names are bound."""

    content: bytes


@dataclass(eq=False)
class Symlink:
    """A node that S3 does not show."""

    target: str


@dataclass(eq=False)
class Directory:
    """The subdirectories, the other names, and true if the directory was created explicitly."""

    made: bool
    directories: dict = field(default_factory=dict)
    others: dict = field(default_factory=dict)

    def is_empty(self):
        return not self.directories and not self.others

    def find(self, name):
        """Returns the node to which a path leads."""
        return self.directories.get(name) or self.others.get(name)

    def names(self):
        """Returns the names that a program sees."""
        return {**self.others, **self.directories}.keys() - {""}

    def bind(self, name, node):
        (self.directories if isinstance(node, Directory) else self.others)[name] = node

    def unbind(self, name, node):
        del (self.directories if isinstance(node, Directory) else self.others)[name]


class Bucket:
    """One bucket. Paths and keys are relative to it, without a leading slash."""

    def __init__(self):
        self.root = Directory(made=True)

    # Operations of S3.

    def put(self, key, content):
        """Binds a key to a new file, and creates the directories that it implies."""
        *parents, name = key.split("/")
        directory = self.root
        for parent in parents:
            directory = directory.directories.setdefault(parent, Directory(made=False))
        directory.others[name] = File(content)

    def delete(self, key):
        """Removes a key, and directories that only keys implied."""
        *parents, name = key.split("/")
        way = [self.root]
        for parent in parents:
            if parent not in way[-1].directories:
                return
            way.append(way[-1].directories[parent])
        if not isinstance(way[-1].others.get(name), File):
            return
        del way[-1].others[name]
        while parents and way[-1].is_empty() and not way[-1].made:
            way.pop()
            del way[-1].directories[parents.pop()]

    def objects(self, directory=None, prefix=""):
        """Returns all keys with their content."""
        directory = directory or self.root
        found = {}
        if prefix and directory.is_empty():
            found[prefix] = b""
        for name, node in directory.others.items():
            if isinstance(node, File):
                found[prefix + name] = node.content
        for name, below in directory.directories.items():
            found.update(self.objects(below, f"{prefix}{name}/"))
        return found

    # Operations of programs.

    def files(self, directory=None, prefix=""):
        """Returns all paths, each with its content, its target or None for a directory, and its
        number of names."""
        directory = directory or self.root
        found = {}
        for name in directory.names():
            node, path = directory.find(name), prefix + name
            if isinstance(node, Directory):
                found[path] = None
                found.update(self.files(node, f"{path}/"))
            elif isinstance(node, Symlink):
                found[path] = node.target
            else:
                found[path] = (node.content, self.names_of(node))
        return found

    def names_of(self, file, directory=None):
        """Returns the number of names of a file, including those that a directory hides."""
        directory = directory or self.root
        here = sum(node is file for node in directory.others.values())
        return here + sum(self.names_of(file, it) for it in directory.directories.values())

    def _parent(self, path):
        *parents, name = path.split("/")
        directory = self.root
        for parent in parents:
            directory = directory.find(parent)
            if directory is None:
                raise Refused(errno.ENOENT)
            if not isinstance(directory, Directory):
                # The targets of symbolic links do not exist, so the model does not follow them.
                raise Refused(errno.ENOTDIR, errno.ENOENT)
        return directory, name

    def _existing(self, path):
        directory, name = self._parent(path)
        node = directory.find(name)
        if node is None:
            raise Refused(errno.ENOENT)
        return directory, name, node

    def _file(self, path):
        node = self._existing(path)[2]
        if isinstance(node, Directory):
            raise Refused(errno.EISDIR)
        if isinstance(node, Symlink):
            raise Refused(errno.ENOENT)
        return node

    def write(self, path, content):
        """O_CREAT | O_TRUNC, then a write."""
        directory, name = self._parent(path)
        if directory.find(name) is None:
            directory.bind(name, File(content))
        else:
            self._file(path).content = content

    def write_at(self, path, offset, content):
        file = self._file(path)
        before = file.content.ljust(offset, b"\0")
        file.content = before[:offset] + content + before[offset + len(content) :]

    def append(self, path, content):
        self._file(path).content += content

    def truncate(self, path, size):
        file = self._file(path)
        file.content = file.content[:size].ljust(size, b"\0")

    def mkdir(self, path):
        directory, name = self._parent(path)
        if directory.find(name) is not None:
            raise Refused(errno.EEXIST)
        directory.bind(name, Directory(made=True))

    def symlink(self, path, target):
        directory, name = self._parent(path)
        if directory.find(name) is not None:
            raise Refused(errno.EEXIST)
        directory.bind(name, Symlink(target))

    def link(self, path, to):
        node = self._existing(path)[2]
        directory, name = self._parent(to)
        if directory.find(name) is not None:
            raise Refused(errno.EEXIST, errno.EPERM)
        if isinstance(node, Directory):
            raise Refused(errno.EPERM)
        directory.bind(name, node)

    def unlink(self, path):
        directory, name, node = self._existing(path)
        if isinstance(node, Directory):
            raise Refused(errno.EISDIR)
        directory.unbind(name, node)

    def rmdir(self, path):
        directory, name, node = self._existing(path)
        self._empty(node)
        directory.unbind(name, node)

    def _empty(self, node):
        if not isinstance(node, Directory):
            raise Refused(errno.ENOTDIR)
        if node.names():
            raise Refused(errno.ENOTEMPTY)

    def rename(self, path, to):
        # Both directories are looked up before the names.
        directory, name = self._parent(path)
        other, new = self._parent(to)
        node = self._existing(path)[2]
        if f"{to}/".startswith(f"{path}/") and to != path and isinstance(node, Directory):
            raise Refused(errno.EINVAL)
        target = other.find(new)
        if f"{path}/".startswith(f"{to}/") and to != path:
            raise Refused(errno.ENOTEMPTY)
        if target is node:
            return
        if target is not None:
            if isinstance(node, Directory):
                self._empty(target)
            elif isinstance(target, Directory):
                raise Refused(errno.EISDIR)
            other.unbind(new, target)
        directory.unbind(name, node)
        other.bind(new, node)
