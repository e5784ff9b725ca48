"""Which image a run boots from, by its packages."""

from __future__ import annotations

import unittest

from aplomb_lab.image import entry_name, package_list


class Names(unittest.TestCase):
    def test_each_choice_of_packages_is_an_image(self) -> None:
        names = {entry_name(), entry_name(["a"]), entry_name(["a", "b"])}
        self.assertEqual(len(names), 3)
        self.assertEqual(entry_name(["b", "a"]), entry_name(["a", "b"]))

    def test_packages_are_words_without_comments(self) -> None:
        for name in package_list():
            self.assertRegex(name, r"^[a-z0-9][a-z0-9.+-]+$")


if __name__ == "__main__":
    unittest.main()
