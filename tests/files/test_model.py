"""Random operations of S3 and of programs on one bucket, compared with a model.

After each step both views must equal the model. `python test_model.py --steps N --seed S` runs it
on ASHLAR_TEST_MOUNT by hand. Each failure prints the seed.
"""

import argparse
import errno
import hashlib
import os
import random
import shutil

import botocore.session
from botocore.exceptions import ClientError

from encryption import set_default
from model import Bucket, Refused
from mounted import Mount, fresh_name
from server import Server

# Few names, so that operations meet; one of them looks like a file in another one's directory.
NAMES = ["a", "b", "c", "a.txt", "ü"]
# The target of links. Its directory does not exist, so a write through a link creates no file.
NOWHERE = "nowhere/at-all"
SIZES = [0, 1, 9, 4_096, 70_000, 300_000]


class Pair:
    """A real bucket in both views, served by one process or alternately by several, and its model.
    """

    def __init__(self, places, bucket, chance, encrypts=False):
        self.places, self.bucket, self.chance = places, bucket, chance
        self.encrypts = encrypts
        self.folder, self.control = places[0]
        self.model, self.opened, self.done, self.seen = Bucket(), [], [], {}

    def path(self):
        return "/".join(self.chance.choices(NAMES, k=self.chance.choice([1, 1, 2, 2, 3])))

    def known(self):
        """Returns mostly a path that exists."""
        there = sorted(self.model.files())
        return self.chance.choice(there) if there and self.chance.random() < 0.8 else self.path()

    def content(self):
        return self.chance.randbytes(self.chance.choice(SIZES))

    def step(self):
        """Executes one operation on both and compares the results."""
        kinds = {
            self.s3_put: 8, self.s3_marker: 2, self.s3_delete: 6, self.s3_copy: 2,
            self.s3_conditional: 2, self.write: 8, self.write_at: 4, self.append: 3,
            self.truncate: 2, self.mkdir: 4, self.symlink: 1, self.link: 2, self.unlink: 4,
            self.rmdir: 3, self.rename: 6, self.open: 2, self.close: 2,
        }
        self.turn()
        self.chance.choices(list(kinds), list(kinds.values()))[0]()

    def turn(self):
        """Chooses the process for the next operations."""
        self.folder, self.control = self.chance.choice(self.places)

    def changed(self, path):
        """Forgets open descriptors of a changed file: those of another mount need not show the
        change."""
        try:
            node = self.model._file(path)
        except Refused:
            return
        self.opened = [(file, folder, None if known is node and folder != self.folder else known)
                       for file, folder, known in self.opened]

    def s3_put(self):
        key, content = self.path(), self.content()
        self.done.append(f"put {key} {len(content)}")
        said = self.control.put_object(Bucket=self.bucket, Key=key, Body=content)
        assert said["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'
        self.model.put(key, content)

    def s3_marker(self):
        key = self.path() + "/"
        self.done.append(f"put {key}")
        self.control.put_object(Bucket=self.bucket, Key=key, Body=b"")
        self.model.put(key, b"")

    def some_key(self):
        keys = sorted(self.model.objects())
        return self.chance.choice(keys) if keys and self.chance.random() < 0.8 else self.path()

    def s3_delete(self):
        keys = {self.some_key() for _ in range(self.chance.choice([1, 1, 3]))}
        self.done.append(f"delete {sorted(keys)}")
        if len(keys) == 1:
            self.control.delete_object(Bucket=self.bucket, Key=min(keys))
        else:
            doomed = {"Objects": [{"Key": key} for key in sorted(keys)]}
            said = self.control.delete_objects(Bucket=self.bucket, Delete=doomed)
            assert "Errors" not in said, said
        for key in sorted(keys):
            self.model.delete(key)

    def s3_copy(self):
        source, key, objects = self.some_key(), self.path(), self.model.objects()
        self.done.append(f"copy {source} {key}")
        copy = lambda: self.control.copy_object(  # noqa: E731
            Bucket=self.bucket, Key=key, CopySource={"Bucket": self.bucket, "Key": source}
        )
        # In a bucket that encrypts, a copy to itself counts as a change.
        if source not in objects or (source == key and not self.encrypts):
            return self.refused(copy, 404, 400)
        copy()
        self.model.put(key, objects[source])

    def s3_conditional(self):
        key, content = self.path(), self.content()
        self.done.append(f"put {key} {len(content)} if absent")
        put = lambda: self.control.put_object(  # noqa: E731
            Bucket=self.bucket, Key=key, Body=content, IfNoneMatch="*"
        )
        if key in self.model.objects():
            return self.refused(put, 412)
        put()
        self.model.put(key, content)

    def refused(self, operation, *statuses):
        try:
            operation()
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in statuses, error
        else:
            raise AssertionError(f"not refused with {statuses}")

    def both(self, real, modelled):
        """Executes a program's operation on both: both succeed, or both fail with the same error.
        """
        try:
            modelled()
            expected = (0,)
        except Refused as error:
            expected = error.numbers
        try:
            real()
            found = 0
        except OSError as error:
            found = error.errno
        names = [errno.errorcode.get(number, "success") for number in expected]
        assert found in expected, f"{errno.errorcode.get(found, 'success')}, expected {names}"

    def on(self, path):
        return os.path.join(self.folder, path)

    def write(self):
        path, content = self.known(), self.content()
        self.done.append(f"write {path} {len(content)}")

        def real():
            with open(self.on(path), "wb") as file:
                file.write(content)

        self.both(real, lambda: self.model.write(path, content))
        self.changed(path)

    def write_at(self):
        path, content, offset = self.known(), self.content(), self.chance.randrange(100_000)
        self.done.append(f"write {path} {len(content)} at {offset}")

        def real():
            with open(self.on(path), "r+b") as file:
                file.seek(offset)
                file.write(content)

        self.both(real, lambda: self.model.write_at(path, offset, content) if content
                  else self.model.append(path, b""))
        self.changed(path)

    def append(self):
        path, content = self.known(), self.content()
        self.done.append(f"append {path} {len(content)}")

        def real():
            file = os.open(self.on(path), os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, content)
            finally:
                os.close(file)

        self.both(real, lambda: self.model.append(path, content))
        self.changed(path)

    def truncate(self):
        path, size = self.known(), self.chance.choice(SIZES)
        self.done.append(f"truncate {path} {size}")
        self.both(lambda: os.truncate(self.on(path), size),
                  lambda: self.model.truncate(path, size))
        self.changed(path)

    def mkdir(self):
        path = self.path()
        self.done.append(f"mkdir {path}")
        self.both(lambda: os.mkdir(self.on(path)), lambda: self.model.mkdir(path))

    def symlink(self):
        path = self.path()
        self.done.append(f"symlink {path}")
        self.both(lambda: os.symlink(NOWHERE, self.on(path)),
                  lambda: self.model.symlink(path, NOWHERE))

    def link(self):
        path, to = self.known(), self.path()
        self.done.append(f"link {path} {to}")
        self.both(lambda: os.link(self.on(path), self.on(to), follow_symlinks=False),
                  lambda: self.model.link(path, to))

    def unlink(self):
        path = self.known()
        self.done.append(f"unlink {path}")
        self.both(lambda: os.unlink(self.on(path)), lambda: self.model.unlink(path))

    def rmdir(self):
        path = self.known()
        self.done.append(f"rmdir {path}")
        self.both(lambda: os.rmdir(self.on(path)), lambda: self.model.rmdir(path))

    def rename(self):
        path, to = self.known(), self.chance.choice([self.path(), self.known()])
        self.done.append(f"rename {path} {to}")
        self.both(lambda: os.rename(self.on(path), self.on(to)),
                  lambda: self.model.rename(path, to))

    def open(self):
        """An open file keeps its node even if its name changes."""
        files = sorted(path for path, about in self.model.files().items()
                       if isinstance(about, tuple))
        if files and len(self.opened) < 4:
            path = self.chance.choice(files)
            self.done.append(f"open {path}")
            file = open(self.on(path), "rb")
            self.opened.append((file, self.folder, self.model._file(path)))

    def close(self):
        if self.opened:
            file, *_ = self.opened.pop(self.chance.randrange(len(self.opened)))
            file.close()

    def compare(self):
        """Compares both views with the model, perhaps through another process. Unchanged objects
        are downloaded only at every tenth step."""
        self.turn()
        found, files = self.look(""), self.model.files()
        assert found == files, self.difference(found, files)
        expected = self.model.objects()
        known = self.seen if len(self.done) % 10 else {}
        objects = dict(self.objects({key for key, content in expected.items()
                                     if known.get(key) is content}))
        expected_now = {key: objects[key] if objects.get(key) == len(content) else content
                        for key, content in expected.items()}
        assert objects == expected_now, self.difference(objects, expected_now)
        self.seen = expected
        for file, _, node in self.opened:
            file.seek(0)
            found = file.read()
            assert node is None or found == node.content, "an open file"

    def look(self, prefix):
        found = {}
        with os.scandir(self.on(prefix)) as entries:
            for entry in entries:
                path, status = prefix + entry.name, entry.stat(follow_symlinks=False)
                if entry.is_symlink():
                    found[path] = os.readlink(entry.path)
                elif entry.is_dir():
                    found[path] = None
                    found.update(self.look(f"{path}/"))
                else:
                    with open(entry.path, "rb") as file:
                        content = file.read()
                    assert status.st_size == len(content), path
                    found[path] = (content, status.st_nlink)
        return found

    def objects(self, known):
        """Returns all keys with their content; for the keys in `known`, with their sizes."""
        last, listed = "", self.control.list_objects_v2(Bucket=self.bucket)
        assert not listed["IsTruncated"]
        for about in listed.get("Contents", []):
            key = about["Key"]
            assert last.encode() < key.encode(), f"{key} after {last}"
            last = key
            if key in known:
                yield key, about["Size"]
                continue
            said = self.control.get_object(Bucket=self.bucket, Key=key)
            content = said["Body"].read()
            assert len(content) == about["Size"] == said["ContentLength"], key
            assert said["ETag"] == about["ETag"], key
            if "-" not in said["ETag"]:
                assert said["ETag"] == f'"{hashlib.md5(content).hexdigest()}"', key
            yield key, content

    def difference(self, found, expected):
        def short(about):
            return (len(about[0]), about[1]) if isinstance(about, tuple) else (
                f"{len(about)} bytes" if isinstance(about, bytes) else about)

        names = [name for name in sorted({*found, *expected})
                 if found.get(name, 0) != expected.get(name, 0)]
        absent = "absent"
        return "\n".join(f"{name}: {short(found.get(name, absent))}, expected "
                         f"{short(expected.get(name, absent))}" for name in names)


def exercise(places, bucket, seed, steps):
    """Executes `steps` random steps. A failure prints the seed and the previous steps."""
    encrypts = seed % 2 == 1
    pair = Pair(places, bucket, random.Random(seed), encrypts)
    if encrypts:
        # Each second bucket encrypts. Neither view shows a difference.
        set_default(pair.control, bucket, "AES256")
    try:
        for _ in range(steps):
            pair.step()
            pair.compare()
    except (AssertionError, OSError, ClientError) as error:
        last = "\n".join(pair.done)
        raise AssertionError(f"seed {seed}, step {len(pair.done)}: {error}\n{last}") from error
    finally:
        for file, *_ in pair.opened:
            file.close()


def test_both_views_agree_with_a_model(mount, place, control, report):
    seed, steps = random.randrange(1 << 32), mount.amount(80, 4_000)
    exercise([(place, control)], place.name, seed, steps)
    report(f"model: seed {seed}, {steps} steps")
    # An object hidden by a directory becomes visible after its removal, and is removed in the next
    # round.
    for _ in range(20):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(exist_ok=True)
    assert os.listdir(place) == []


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--beside", nargs=2, action="append", default=[],
                        metavar=("MOUNT", "ENDPOINT"), help="another process of the same volume")
    options, name = parser.parse_args(), fresh_name("model")
    print(f"seed {options.seed}", flush=True)
    (Mount().root / name).mkdir()
    settings, session = Server().aws_settings(), botocore.session.get_session()
    both = [(Mount().root, settings["endpoint_url"]), *options.beside]
    both = [(os.path.join(mount, name),
             session.create_client("s3", **{**settings, "endpoint_url": endpoint}))
            for mount, endpoint in both]
    exercise(both, name, options.seed, options.steps)
    print(f"{options.steps} steps, both views agree")
