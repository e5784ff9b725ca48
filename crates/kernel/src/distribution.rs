//! Detects the distribution (os-release(5)) and knows which of its kernel packages has sched_ext.
//!
//! Debian enables sched_ext since its 6.16 kernel: trixie and bookworm have kernels without it,
//! trixie-backports has a later one. Fedora, Arch Linux and NixOS enable it since 6.12, the first
//! release with sched_ext (NixOS: nixpkgs' os-specific/linux/kernel/common-config.nix). All five
//! distributions build their kernels with BTF.

use std::fs;
use std::path::Path;

/// A family of distributions with the same package manager and kernel packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Debian,
    Ubuntu,
    Fedora,
    Arch,
    NixOs,
    Unknown,
}

/// The contents of /etc/os-release that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Name for messages: "Fedora Linux 43 (Workstation Edition)".
    pub name: String,
    pub family: Family,
    /// Code name of the release ("trixie"); empty if the distribution's releases have none.
    codename: String,
}

impl Distribution {
    /// Reads etc/os-release below `root`. If it is missing, reads usr/lib/os-release.
    pub fn at(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let text = read("etc/os-release").or_else(|| read("usr/lib/os-release"));
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let value = |key: &str| {
            let assigned =
                |line: &'_ str| Some(line.trim().strip_prefix(key)?.strip_prefix('=')?.to_owned());
            let value = text.lines().find_map(assigned).unwrap_or_default();
            value.trim_matches(['"', '\'']).to_owned()
        };
        let (id, like) = (value("ID"), value("ID_LIKE"));
        let family = std::iter::once(id.as_str())
            .chain(like.split_whitespace())
            .find_map(family)
            .unwrap_or(Family::Unknown);
        let name = [value("PRETTY_NAME"), value("NAME"), id];
        Self {
            name: name
                .into_iter()
                .find(|n| !n.is_empty())
                .unwrap_or_else(|| "unknown".into()),
            family,
            codename: value("VERSION_CODENAME"),
        }
    }

    /// How to install a kernel with sched_ext on this distribution, as one instruction. For an
    /// unknown distribution: the requirements for such a kernel.
    pub fn install_kernel(&self) -> String {
        let image = format!("linux-image-{}", debian_architecture());
        match self.family {
            Family::Debian => match self.codename.as_str() {
                "bookworm" => "upgrade to Debian 13 (trixie), then install its kernel from backports: Debian 12 has none \
                               with sched_ext"
                    .into(),
                "trixie" => format!(
                    "add trixie-backports to the apt sources, then: sudo apt install -t trixie-backports {image}; reboot"
                ),
                _ => format!("sudo apt install {image}, 6.16 or later (on a stable release: from backports); reboot"),
            },
            Family::Ubuntu => {
                "install the newest kernel of this release: sudo apt install linux-generic-hwe-24.04 on 24.04, \
                 linux-generic on later ones; reboot"
                    .into()
            }
            Family::Fedora => "sudo dnf upgrade --refresh kernel; reboot (Fedora's package kernel has sched_ext)".into(),
            Family::Arch => "sudo pacman -Syu linux; reboot into it (Arch's package linux has sched_ext)".into(),
            Family::NixOs => "set boot.kernelPackages = pkgs.linuxPackages_latest; in configuration.nix, then: sudo \
                              nixos-rebuild boot; reboot (nixpkgs' kernels have sched_ext)"
                .into(),
            Family::Unknown => {
                "boot Linux 6.16 or later, built with CONFIG_SCHED_CLASS_EXT=y and CONFIG_DEBUG_INFO_BTF=y".into()
            }
        }
    }

    /// The package of the ordinary kernel, as opposed to a PREEMPT_RT kernel or one with extra
    /// patches.
    pub fn ordinary_kernel(&self) -> &'static str {
        match self.family {
            Family::Debian => "linux-image-amd64 or linux-image-arm64",
            Family::Ubuntu => "linux-generic",
            Family::Fedora => "kernel",
            Family::Arch => "linux",
            Family::NixOs => "pkgs.linuxPackages_latest",
            Family::Unknown => "the distribution's ordinary kernel",
        }
    }
}

fn family(id: &str) -> Option<Family> {
    Some(match id {
        "debian" => Family::Debian,
        "ubuntu" => Family::Ubuntu,
        "fedora" => Family::Fedora,
        "arch" | "archlinux" => Family::Arch,
        "nixos" => Family::NixOs,
        _ => return None,
    })
}

fn debian_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEDORA: &str = "NAME=\"Fedora Linux\"\nVERSION=\"43 (Workstation Edition)\"\nID=fedora\nVERSION_ID=43\n\
                          VERSION_CODENAME=\"\"\nPRETTY_NAME=\"Fedora Linux 43 (Workstation Edition)\"\n";
    const ARCH: &str =
        "NAME=\"Arch Linux\"\nPRETTY_NAME=\"Arch Linux\"\nID=arch\nBUILD_ID=rolling\n";
    const NIXOS: &str = "ANSI_COLOR=\"0;38;2;126;186;228\"\nID=nixos\nID_LIKE=\"\"\nNAME=NixOS\n\
                         PRETTY_NAME=\"NixOS 25.11 (Xantusia)\"\nVERSION_CODENAME=xantusia\n";
    const TRIXIE: &str =
        "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nVERSION_CODENAME=trixie\nID=debian\n";

    #[test]
    fn each_distribution_is_told_its_own_package() {
        for (text, family, name, words) in [
            (
                FEDORA,
                Family::Fedora,
                "Fedora Linux 43 (Workstation Edition)",
                "dnf upgrade --refresh kernel",
            ),
            (ARCH, Family::Arch, "Arch Linux", "pacman -Syu linux"),
            (
                NIXOS,
                Family::NixOs,
                "NixOS 25.11 (Xantusia)",
                "boot.kernelPackages = pkgs.linuxPackages_latest;",
            ),
            (
                TRIXIE,
                Family::Debian,
                "Debian GNU/Linux 13 (trixie)",
                "-t trixie-backports linux-image-",
            ),
            (
                "ID=debian\nVERSION_CODENAME=bookworm",
                Family::Debian,
                "debian",
                "Debian 13",
            ),
            (
                "ID=ubuntu\nID_LIKE=debian",
                Family::Ubuntu,
                "ubuntu",
                "linux-generic",
            ),
            ("", Family::Unknown, "unknown", "CONFIG_SCHED_CLASS_EXT=y"),
        ] {
            let found = Distribution::parse(text);
            assert_eq!((found.family, found.name.as_str()), (family, name));
            assert!(
                found.install_kernel().contains(words),
                "{found:?}: {}",
                found.install_kernel()
            );
            assert!(!found.ordinary_kernel().is_empty());
        }
    }

    #[test]
    fn a_derivative_is_known_by_what_it_is_like() {
        let like = |text: &str| Distribution::parse(text).family;
        assert_eq!(like("ID=cachyos\nID_LIKE=arch"), Family::Arch);
        assert_eq!(
            like("ID='linuxmint'\nID_LIKE=\"ubuntu debian\""),
            Family::Ubuntu
        );
        assert_eq!(
            like("ID=nobara\nID_LIKE=\"rhel centos fedora\""),
            Family::Fedora
        );
        assert_eq!(like("VARIANT_ID=fedora\nID=alpine"), Family::Unknown);
    }

    #[test]
    fn the_file_is_looked_for_in_both_places() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Distribution::at(dir.path()).family, Family::Unknown);
        for (file, text, family) in [
            ("usr/lib/os-release", ARCH, Family::Arch),
            ("etc/os-release", FEDORA, Family::Fedora),
        ] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            assert_eq!(Distribution::at(dir.path()).family, family);
        }
    }
}
