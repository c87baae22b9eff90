"""Paths that are no files, and includes that are missing, endless, or lead out of the workspace."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Attack

# A machine whose first step is an include; its faults end with 1 (rulings §4).
HOST = "initialStep: a\nsteps:\n  a: {{$include: {}}}\n"
SECRET = "do-not-show-this"


@pytest.fixture
def listener(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A socket in the workspace; bound by a short name, because long paths cannot be."""
    monkeypatch.chdir(attack.folder)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.yaml")
        yield "socket.yaml"


def host(attack: Attack, target: str) -> str:
    return attack.write("host.yaml", HOST.format(target))


@pytest.mark.parametrize("command", [["validate"], ["run", "--dry-run"]])
class TestNamed:
    """What the user names on the command line."""

    def test_missing(self, attack: Attack, command: list[str]) -> None:
        attack.run(*command, "missing.yaml").assert_refused("E001", "missing.yaml")

    def test_folder(self, attack: Attack, command: list[str]) -> None:
        (attack.folder / "folder.yaml").mkdir()
        attack.run(*command, "folder.yaml").assert_refused("E002", "folder.yaml")

    def test_fifo_that_nobody_writes_to(self, attack: Attack, command: list[str]) -> None:
        os.mkfifo(attack.folder / "fifo.yaml")
        attack.run(*command, "fifo.yaml").assert_refused("E002", "fifo.yaml")

    def test_socket(self, attack: Attack, command: list[str], listener: str) -> None:
        # Linux cannot open a socket at all, others say so later.
        ending = attack.run(*command, listener).assert_well_behaved()
        assert ending.exit_code == 2
        assert f"{listener}:1:1: error E00" in ending.said

    @pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/random", "/dev/tty"])
    def test_device(self, attack: Attack, command: list[str], device: str) -> None:
        ending = attack.run(*command, device).assert_well_behaved()
        assert ending.exit_code == 2
        assert f"{device}:1:1: error E00" in ending.said

    def test_path_through_a_file(self, attack: Attack, command: list[str]) -> None:
        attack.write("file", "x")
        attack.run(*command, "file/x.yaml").assert_refused("E001", "file/x.yaml")

    def test_link_to_itself(self, attack: Attack, command: list[str]) -> None:
        (attack.folder / "loop.yaml").symlink_to("loop.yaml")
        attack.run(*command, "loop.yaml").assert_refused("E001", "loop.yaml")


@pytest.mark.parametrize(
    "name", ["", ".", "/", "~", "a" * 5000 + ".yaml", "a/" * 2000 + "x.yaml", "a\nb\x1b[2J.yaml"]
)
def test_odd_names(attack: Attack, name: str) -> None:
    ending = attack.run("validate", name).assert_well_behaved()
    assert ending.exit_code == 2


def test_name_that_is_not_utf_8(attack: Attack) -> None:
    path = os.fsencode(attack.folder) + b"/caf\xe9.yaml"
    Path(os.fsdecode(path)).write_text("steps: [", "utf-8")
    assert attack.run("validate", os.fsdecode(b"caf\xe9.yaml")).assert_well_behaved().exit_code == 2


@pytest.mark.parametrize("agent", ["a" * 5000, "../../outside/x", "a:" * 2000 + "a", "/etc/passwd"])
def test_odd_agent_names(attack: Attack, agent: str) -> None:
    head = "name: x\ndescription: y\nversion: 1.0.0\nsteps:\n"
    name = attack.write("host.yaml", f"{head}  - {{id: a, agent: '{agent}', prompt: x}}\n")
    attack.run("validate", name).assert_well_behaved()


@pytest.mark.parametrize("recipe", ["a" * 5000, "../../outside/x", "a/" * 2000 + "a", "a\\0b"])
def test_odd_recipe_ids(attack: Attack, recipe: str) -> None:
    step = f'{{action: restart-new-session, recipeId: "{recipe}"}}'
    routes = f"outcomes: [a, other], onOutcome: {{a: {step}, other: {step}}}"
    name = attack.write("host.yaml", f"initialStep: a\nsteps:\n  a: {{prompt: x, {routes}}}\n")
    assert attack.run("validate", name).assert_well_behaved().exit_code == 1


class TestIncluded:
    def test_missing(self, attack: Attack) -> None:
        name = host(attack, "missing.yaml")
        attack.run("validate", name).assert_refused("E020", name, 1)

    def test_folder(self, attack: Attack) -> None:
        (attack.folder / "part.yaml").mkdir()
        name = host(attack, "part.yaml")
        attack.run("validate", name).assert_refused("E020", name, 1)

    def test_fifo(self, attack: Attack) -> None:
        os.mkfifo(attack.folder / "part.md")
        name = host(attack, "part.md")
        attack.run("validate", name).assert_refused("E020", name, 1)

    def test_socket(self, attack: Attack, listener: str) -> None:
        name = host(attack, listener)
        attack.run("validate", name).assert_refused("E020", name, 1)

    @pytest.mark.parametrize(
        ("part", "content", "code"),
        [
            ("part.yaml", b"\x7fELF\0", "E004"),
            ("part.md", b"\x89PNG\r\n\0", "E004"),
            ("part.txt", "caf\xe9".encode("latin-1"), "E004"),
            ("part.yaml", b"", "E005"),
            ("part.yaml", b"[" * 1_000_000, "E011"),
            ("part.json", b"[" * 1_000_000, "E011"),
            ("part.json", b"{", "E006"),
            ("part.yaml", b"- a\n" * 2_000_000, "E012"),
        ],
    )
    def test_broken(self, attack: Attack, part: str, content: bytes, code: str) -> None:
        attack.write(part, content)
        ending = attack.run("validate", host(attack, part)).assert_well_behaved()
        ending.assert_refused(code, part, 1)

    @pytest.mark.parametrize(
        ("target", "code"),
        [
            ("5", "E024"),
            ("true", "E024"),
            ("null", "E024"),
            ("[]", "E024"),
            ("{}", "E024"),
            ("[[a.yaml]]", "E024"),
            ("''", "E024"),
            ("part.exe", "E024"),
            ("https://example.org/a.yaml", "E024"),
            ("file:///etc/passwd.yaml", "E024"),
            ('"a\\0b.yaml"', "E024"),
            ("part.yaml#x", "E023"),
            ("part.yaml#/x", "E023"),
            ("part.yaml#/list/2", "E023"),
            ("part.yaml#/list/-1", "E023"),
            ("part.yaml#/list/01", "E023"),
            ("part.yaml#/list/\u0661", "E023"),
            ("part.yaml#/text/0", "E023"),
            ("part.yaml#/list/" + "9" * 5000, "E023"),
            ("text.md#/a", "E024"),
            ("[text.md, text.md]", "E024"),
            ("part.yaml" + "#/a" * 100_000, "E023"),
        ],
    )  # fmt: skip
    def test_malformed(self, attack: Attack, target: str, code: str) -> None:
        attack.write("part.yaml", "list: [a, b]\ntext: c\n")
        attack.write("text.md", "hello")
        name = host(attack, target)
        attack.run("validate", name).assert_refused(code, name, 1)

    def test_text_beside_other_keys(self, attack: Attack) -> None:
        attack.write("text.md", "hello")
        name = host(attack, "text.md, prompt: x")
        attack.run("validate", name).assert_refused("E024", name, 1)

    def test_list_beside_other_keys(self, attack: Attack) -> None:
        attack.write("list.yaml", "[a]")
        name = host(attack, "list.yaml, prompt: x")
        attack.run("validate", name).assert_refused("E025", name, 1)

    def test_both_keywords(self, attack: Attack) -> None:
        name = host(attack, "host.yaml, $ref: host.yaml")
        attack.run("validate", name).assert_refused("E024", name, 1)

    def test_text_in_a_list_is_one_item(self, attack: Attack) -> None:
        attack.write("text.md", "abc")
        steps = (
            'version: "1.1"\nname: x\nsteps:\n  - name: a\n    command: [echo, {$include: text.md}]'
        )
        name = attack.write("host.yaml", steps)
        ending = attack.run("plan", "--json", name).assert_well_behaved()
        assert ending.exit_code == 0
        assert "abc" in ending.stdout


class TestCycles:
    def test_self(self, attack: Attack) -> None:
        name = host(attack, "host.yaml")
        attack.run("validate", name).assert_refused("E021", name, 1)

    def test_this_file(self, attack: Attack) -> None:
        name = host(attack, '"#/steps/a"')
        attack.run("validate", name).assert_refused("E021", name, 1)

    def test_whole_file_is_itself(self, attack: Attack) -> None:
        name = attack.write("host.yaml", "$include: host.yaml\n")
        attack.run("validate", name).assert_refused("E021", name)

    def test_two_files(self, attack: Attack) -> None:
        attack.write("one.yaml", "x: {$include: two.yaml}\n")
        attack.write("two.yaml", "y: {$include: one.yaml}\n")
        ending = attack.run("validate", host(attack, "one.yaml"))
        ending.assert_refused("E021", "two.yaml", 1)
        assert "one.yaml → two.yaml → one.yaml" in ending.stdout

    def test_through_pointers(self, attack: Attack) -> None:
        attack.write(
            "one.yaml", "a: {b: {$include: 'one.yaml#/c'}}\nc: {$include: 'one.yaml#/a'}\n"
        )
        attack.run("validate", host(attack, "one.yaml#/a/b")).assert_refused("E021", "one.yaml", 1)

    def test_through_a_pointer_into_an_include(self, attack: Attack) -> None:
        attack.write("one.yaml", "$include: 'two.yaml#/x'\n")
        attack.write("two.yaml", "$include: 'one.yaml#/y'\n")
        ending = attack.run("validate", host(attack, "one.yaml#/z")).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E021" in ending.stdout

    def test_through_a_link(self, attack: Attack) -> None:
        attack.write("one.yaml", "x: {$include: two.yaml}\n")
        (attack.folder / "two.yaml").symlink_to("one.yaml")
        ending = attack.run("validate", host(attack, "one.yaml")).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E0" in ending.stdout

    def test_sub_recipes(self, attack: Attack) -> None:
        head = "name: x\ndescription: y\nversion: 1.0.0\nsteps:\n"
        attack.write("one.yaml", head + "  - {id: a, type: recipe, recipe: two.yaml}\n")
        attack.write("two.yaml", head + "  - {id: a, type: recipe, recipe: one.yaml}\n")
        attack.run("validate", "one.yaml").assert_well_behaved()


class TestBombs:
    def test_ten_files_that_include_the_next_ten_times(self, attack: Attack) -> None:
        for number in range(10):
            item = f"{{$include: f{number + 1}.yaml}}"
            attack.write(f"f{number}.yaml", f"[{', '.join([item] * 10)}]")
        attack.write("f10.yaml", "[ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]")
        ending = attack.run("validate", host(attack, "f0.yaml")).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E012" in ending.stdout

    def test_mappings_that_include_the_next_twice(self, attack: Attack) -> None:
        for number in range(40):
            item = f"{{$include: f{number + 1}.yaml}}"
            attack.write(f"f{number}.yaml", f"a: {item}\nb: {item}\n")
        attack.write("f40.yaml", "a: 1\n")
        ending = attack.run("validate", host(attack, "f0.yaml")).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E012" in ending.stdout

    def test_patches_over_patches(self, attack: Attack) -> None:
        for number in range(60):
            attack.write(f"f{number}.yaml", f"$include: [f{number + 1}.yaml, f{number + 1}.yaml]\n")
        attack.write("f60.yaml", "a: 1\n")
        attack.run("validate", host(attack, "f0.yaml")).assert_well_behaved()

    def test_chain_of_two_thousand(self, attack: Attack) -> None:
        for number in range(2000):
            attack.write(f"f{number}.yaml", f"x: {{$include: f{number + 1}.yaml}}\n")
        attack.write("f2000.yaml", "x: end\n")
        ending = attack.run("validate", host(attack, "f0.yaml")).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E0" in ending.stdout

    def test_flat_chain_of_two_thousand(self, attack: Attack) -> None:
        for number in range(2000):
            attack.write(f"f{number}.yaml", f"$include: f{number + 1}.yaml\n")
        attack.write("f2000.yaml", "x: end\n")
        ending = attack.run("validate", host(attack, "f0.yaml")).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E0" in ending.stdout

    def test_many_pointers_into_one_file(self, attack: Attack) -> None:
        part = "".join(f"k{n}: {{$include: '#/k{n + 1}'}}\n" for n in range(3000))
        name = attack.write("part.yaml", part + "k3000: 1\n")
        ending = attack.run("validate", host(attack, name)).assert_well_behaved()
        assert ending.exit_code == 1

    def test_many_pointers_into_an_include(self, attack: Attack) -> None:
        attack.write("big.yaml", "".join(f"k{n}: {n}\n" for n in range(20_000)))
        attack.write("part.yaml", "$include: big.yaml\nmore: 1\n")
        keys = "".join(f"  s{n}: {{$include: 'part.yaml#/k{n}'}}\n" for n in range(3000))
        name = attack.write("host.yaml", f"initialStep: s0\nsteps:\n{keys}")
        attack.run("validate", name).assert_refused("E103", "big.yaml", 1)

    def test_list_spliced_again_and_again(self, attack: Attack) -> None:
        attack.write("list.yaml", "[" + "a, " * 50_000 + "a]")
        items = ", ".join(["{$include: list.yaml}"] * 5000)
        name = attack.write("host.yaml", f"initialStep: a\nsteps: {{a: [{items}]}}\n")
        attack.run("validate", name).assert_refused("E012", name, 1)

    def test_mapping_patched_again_and_again(self, attack: Attack) -> None:
        attack.write("map.yaml", "".join(f"k{n}: {n}\n" for n in range(20_000)))
        targets = ", ".join(["map.yaml"] * 5000)
        attack.run("validate", host(attack, f"[{targets}]")).assert_refused("E012", "host.yaml", 1)

    def test_many_patched_mappings(self, attack: Attack) -> None:
        attack.write("map.yaml", "".join(f"k{n}: {n}\n" for n in range(20_000)))
        items = ", ".join(["{$include: [map.yaml, map.yaml], a: 1}"] * 2000)
        name = attack.write("host.yaml", f"initialStep: a\nsteps: {{a: [{items}]}}\n")
        attack.run("validate", name).assert_refused("E012", name, 1)

    def test_many_large_texts(self, attack: Attack) -> None:
        for number in range(20):
            attack.write(f"t{number}.md", "x" * 1_000_000)
        items = ", ".join(f"{{$include: t{number}.md}}" for number in range(20))
        name = attack.write("host.yaml", f"initialStep: a\nsteps: {{a: {{x: [{items}]}}}}\n")
        attack.run("validate", name).assert_refused("E003", name, 1)

    def test_many_files_of_many_values(self, attack: Attack) -> None:
        for number in range(20):
            attack.write(f"v{number}.yaml", "- a\n" * 90_000)
        items = ", ".join(f"{{$include: v{number}.yaml}}" for number in range(20))
        name = attack.write("host.yaml", f"initialStep: a\nsteps: {{a: {{x: [{items}]}}}}\n")
        ending = attack.run("validate", name).assert_well_behaved()
        assert ending.exit_code == 1
        assert "error E012" in ending.stdout


class TestOutside:
    """Nothing outside the workspace is read, whatever leads there."""

    @pytest.fixture(autouse=True)
    def secret(self, attack: Attack) -> Path:
        path = attack.outside / "secret.yaml"
        path.write_text(f"prompt: {SECRET}\n", "utf-8")
        return path

    def refuse(self, attack: Attack, target: str) -> None:
        name = host(attack, target)
        ending = attack.run("validate", name).assert_refused("E022", name, 1)
        assert SECRET not in ending.said

    def test_parent(self, attack: Attack) -> None:
        self.refuse(attack, "../outside/secret.yaml")

    def test_winding_parent(self, attack: Attack) -> None:
        (attack.folder / "sub").mkdir()
        self.refuse(attack, "sub/../../outside/./secret.yaml")

    def test_absolute(self, attack: Attack, secret: Path) -> None:
        self.refuse(attack, str(secret))

    def test_file_link(self, attack: Attack, secret: Path) -> None:
        (attack.folder / "link.yaml").symlink_to(secret)
        self.refuse(attack, "link.yaml")

    def test_folder_link(self, attack: Attack) -> None:
        (attack.folder / "link").symlink_to(attack.outside)
        self.refuse(attack, "link/secret.yaml")

    def test_parent_of_a_folder_link(self, attack: Attack) -> None:
        """The system and a textual clean-up read `link/..` differently; neither may win."""
        (attack.outside / "deep").mkdir()
        (attack.folder / "link").symlink_to(attack.outside / "deep")
        attack.write("secret.yaml", "prompt: harmless\n")
        name = host(attack, "link/../secret.yaml")
        ending = attack.run("validate", name).assert_well_behaved()
        assert SECRET not in ending.said

    def test_text_link(self, attack: Attack) -> None:
        (attack.outside / "secret.md").write_text(SECRET, "utf-8")
        (attack.folder / "link.md").symlink_to(attack.outside / "secret.md")
        self.refuse(attack, "link.md")

    def test_sibling_with_the_same_beginning(self, attack: Attack) -> None:
        sibling = attack.folder.parent / "workspace-of-somebody"
        sibling.mkdir()
        (sibling / "secret.yaml").write_text(f"prompt: {SECRET}\n", "utf-8")
        self.refuse(attack, "../workspace-of-somebody/secret.yaml")

    def test_sub_recipe(self, attack: Attack) -> None:
        recipe = f"name: {SECRET}\nsteps:\n  - {{id: {SECRET}, agent: a, promt: {SECRET}}}\n"
        (attack.outside / "secret.yaml").write_text(recipe, "utf-8")
        head = "name: x\ndescription: y\nversion: 1.0.0\nsteps:\n"
        name = attack.write(
            "host.yaml", head + "  - {id: a, type: recipe, recipe: ../outside/secret.yaml}\n"
        )
        ending = attack.run("validate", name).assert_well_behaved()
        assert ending.exit_code == 2
        assert SECRET not in ending.said
