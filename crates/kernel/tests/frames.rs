//! Checks a rule for the verifiers of 6.16 to 6.17.8 and 6.18-rc5, which `TAKES_STACK` in
//! bpf/kernel/program.bpf.h explains. The check reads the compiled object, because only there
//! frames have depths.
//!
//! The rule applies to a static function that is called in a loop and that uses an iterator, itself
//! or through other static functions. (A global function is verified by itself.) Such a function
//! has to write the deepest place of its frame before its first jump or call.

use std::collections::{BTreeMap, BTreeSet};

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

const FRAME: u8 = 10; // the register that holds a frame's upper end

/// An instruction, as in include/uapi/linux/bpf.h.
struct Insn {
    code: u8,
    dst: u8,
    src: u8,
    off: i16,
    imm: i32,
    calls: Option<Callee>,
}

/// The target of a call.
enum Callee {
    /// a function of the kernel
    Kernel(String),
    /// one of ours: its section, and its place there in instructions
    Ours(usize, i64),
}

/// A function, with its place.
struct Function {
    name: String,
    is_static: bool,
    code: Vec<Insn>,
    section: usize,
    start: i64,
}

impl Insn {
    fn parse(bytes: &[u8]) -> Insn {
        Insn {
            code: bytes[0],
            dst: bytes[1] & 15,
            src: bytes[1] >> 4,
            off: i16::from_le_bytes([bytes[2], bytes[3]]),
            imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            calls: None,
        }
    }

    fn is_call(&self) -> bool {
        self.code == 0x85
    }

    fn is_jump(&self) -> bool {
        matches!(self.code & 7, 5 | 6) && !self.is_call()
    }

    /// `may_goto`, which the verifier treats like an iterator's next.
    fn is_may_goto(&self) -> bool {
        self.code == 0xe5
    }

    /// How deep it reaches into the frame in memory, in bytes; and whether it writes there.
    fn reaches(&self) -> Option<(i64, bool)> {
        let (base, writes) = match self.code & 7 {
            1 => (self.src, false),
            2 | 3 => (self.dst, true),
            _ => return None,
        };
        (base == FRAME).then_some((-i64::from(self.off), writes))
    }
}

impl Function {
    /// Does the verifier widen what it knows in this function's own frame?
    fn has_iterator(&self) -> bool {
        self.code.iter().any(|i| {
            let next = |name: &String| name.starts_with("bpf_iter_") && name.ends_with("_next");
            i.is_may_goto() || matches!(&i.calls, Some(Callee::Kernel(name)) if next(name))
        })
    }

    /// From where to where its loops go, in instructions.
    fn loops(&self) -> Vec<(i64, i64)> {
        let jumps = (0i64..).zip(&self.code).filter(|(_, i)| i.is_jump());
        let ways = jumps.map(|(at, i)| (at + 1 + i64::from(i.off), at));
        ways.filter(|(to, at)| to <= at).collect()
    }

    /// The deepest place of its frame that it names, in bytes.
    fn depth(&self) -> i64 {
        let mut copies = BTreeSet::new(); // registers that hold the frame's end as it is
        let mut deepest = 0;
        for i in &self.code {
            deepest = deepest.max(i.reaches().map_or(0, |(depth, _)| depth));
            match i.code {
                0xbf if i.src == FRAME => {
                    copies.insert(i.dst);
                }
                0x07 if copies.remove(&i.dst) => deepest = deepest.max(-i64::from(i.imm)),
                _ => {}
            }
        }
        deepest
    }

    /// How much of its frame it has written before its first jump or call, in bytes.
    fn depth_at_once(&self) -> i64 {
        let first = self
            .code
            .iter()
            .take_while(|i| !i.is_jump() && !i.is_call());
        let written = first
            .filter_map(Insn::reaches)
            .filter(|(_, writes)| *writes);
        written.map(|(depth, _)| depth).max().unwrap_or(0)
    }
}

/// All functions of an object, by their places.
fn functions(data: &[u8]) -> BTreeMap<(usize, i64), Function> {
    let file: ElfFile<FileHeader64<LittleEndian>> = ElfFile::parse(data).expect("an ELF file");
    let mut found = BTreeMap::new();
    for symbol in file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.size() > 0)
    {
        let section = symbol.section_index().expect("functions are in sections");
        let text = file
            .section_by_index(section)
            .expect("a section")
            .data()
            .expect("its code");
        let (from, to) = (symbol.address(), symbol.address() + symbol.size());
        let code = text[from as usize..to as usize]
            .chunks(8)
            .map(Insn::parse)
            .collect();
        let start = from as i64 / 8;
        let name = symbol.name().expect("a name").to_owned();
        let is_static = symbol.is_local();
        let section = section.0;
        found.insert(
            (section, start),
            Function {
                name,
                is_static,
                code,
                section,
                start,
            },
        );
    }
    let mut called = BTreeMap::new(); // by relocation
    for section in file.sections() {
        for (at, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let symbol = file.symbol_by_index(symbol).expect("a symbol");
            let into = symbol
                .section_index()
                .map(|s| (s.0, symbol.address() as i64 / 8));
            let name = symbol.name().unwrap_or_default().to_owned();
            called.insert((section.index().0, at as i64 / 8), (into, name));
        }
    }
    for f in found.values_mut() {
        for (at, i) in (f.start..).zip(&mut f.code).filter(|(_, i)| i.is_call()) {
            i.calls = match called.get(&(f.section, at)) {
                Some((Some((section, place)), _)) => {
                    Some(Callee::Ours(*section, place + 1 + i64::from(i.imm)))
                }
                Some((None, name)) => Some(Callee::Kernel(name.clone())),
                None if i.src == 1 => Some(Callee::Ours(f.section, at + 1 + i64::from(i.imm))),
                None => None, // a helper
            };
        }
    }
    found
}

/// The static functions that `f` calls; `looping`: in its loops only.
fn statics<'a>(
    all: &'a BTreeMap<(usize, i64), Function>,
    f: &Function,
    looping: bool,
) -> Vec<&'a Function> {
    let loops = f.loops();
    let in_loop = |at: i64| loops.iter().any(|(from, to)| (*from..=*to).contains(&at));
    let calls = (0i64..)
        .zip(&f.code)
        .filter(|(at, _)| !looping || in_loop(*at));
    let ours = calls.filter_map(|(_, i)| match &i.calls {
        Some(Callee::Ours(section, place)) => Some(&all[&(*section, *place)]),
        _ => None,
    });
    ours.filter(|callee| callee.is_static).collect()
}

/// Adds `f` to `frames`, and what it calls, as far as they lead to an iterator. True: `f` does.
fn on_the_way<'a>(
    all: &'a BTreeMap<(usize, i64), Function>,
    f: &'a Function,
    frames: &mut BTreeMap<&'a str, &'a Function>,
) -> bool {
    let mut leads = f.has_iterator();
    for callee in statics(all, f, false) {
        leads |= on_the_way(all, callee, frames);
    }
    if leads {
        frames.insert(&f.name, f);
    }
    leads
}

#[test]
fn functions_that_loop_in_a_loop_take_their_stack_at_once() {
    let all = functions(include_bytes!(concat!(env!("OUT_DIR"), "/main.bpf.o")));
    let mut frames = BTreeMap::new();
    for f in all.values() {
        for callee in statics(&all, f, true) {
            on_the_way(&all, callee, &mut frames);
        }
    }
    // the heaps of the domain tree: so it does look
    assert!(
        frames.contains_key("heap_merge") && frames.contains_key("climb"),
        "{:?}",
        frames.keys()
    );
    let late: Vec<_> = frames
        .values()
        .filter(|f| f.depth_at_once() < f.depth())
        .map(|f| {
            format!(
                "{}: has {} bytes at once, reaches {}",
                f.name,
                f.depth_at_once(),
                f.depth()
            )
        })
        .collect();
    assert!(
        late.is_empty(),
        "TAKES_STACK is missing, or too little:\n{}",
        late.join("\n")
    );
    // TAKES_STACK itself writes below all that the compiler uses: else it overwrites something
    for f in frames.values().filter(|f| f.depth() > 0) {
        let deepest = f
            .code
            .iter()
            .filter(|i| i.reaches().is_some_and(|(depth, _)| depth == f.depth()));
        assert_eq!(
            deepest.count(),
            1,
            "{}: what it takes at once overlaps what it uses",
            f.name
        );
    }
}
