//! The libraries of functions that a node knows, as their texts say. Shared by all its doors, and told by whoever keeps them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A function, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionOf {
    pub name: String,
    pub description: Option<String>,
    pub flags: Vec<String>,
}

impl FunctionOf {
    #[must_use]
    pub fn reads_only(&self) -> bool {
        self.flags.iter().any(|flag| flag == "no-writes")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    pub name: String,
    pub text: Arc<[u8]>,
    pub functions: Vec<FunctionOf>,
}

/// Reads a library; else the line to answer, without its minus.
pub type ReadLibrary = fn(&[u8]) -> Result<Library, Vec<u8>>;

/// One state of the shelf. Invariant: no two libraries have a function of one name.
#[derive(Debug, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Library>,
    /// The library of each function.
    by_function: BTreeMap<String, String>,
}

impl Libraries {
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Library> {
        self.by_name.values()
    }

    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Library> {
        self.by_name.get(name)
    }

    /// A function by its name, and its library.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<(&Library, &FunctionOf)> {
        let library = self.by_name.get(self.by_function.get(name)?)?;
        Some((library, library.functions.iter().find(|function| function.name == name)?))
    }

    #[must_use]
    pub fn functions(&self) -> usize {
        self.by_function.len()
    }
}

/// It begins empty.
#[derive(Debug, Default)]
pub struct Shelf {
    held: RwLock<Arc<Libraries>>,
    read: Option<ReadLibrary>,
}

impl Shelf {
    #[must_use]
    pub fn reading(read: ReadLibrary) -> Self {
        Self { read: Some(read), ..Self::default() }
    }

    #[must_use]
    pub fn held(&self) -> Arc<Libraries> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn read(&self, text: &[u8]) -> Result<Library, Vec<u8>> {
        self.read.map_or_else(|| Err(b"ERR functions are not offered here".to_vec()), |read| read(text))
    }

    /// From now on these are there. One that cannot be read, or has a function that another one has, is there without functions:
    /// whoever loaded it saw it otherwise, for two were loaded at once.
    pub fn turn_to(&self, texts: &BTreeMap<String, Arc<[u8]>>) {
        let held = self.held();
        let is_same = |(name, text): (&String, &Arc<[u8]>)| held.named(name).is_some_and(|known| known.text == *text);
        if held.all().len() == texts.len() && texts.iter().all(is_same) {
            return;
        }
        let mut next = Libraries::default();
        for (name, text) in texts {
            let known = held.named(name).filter(|known| known.text == *text).cloned();
            let mut library = known.or_else(|| self.read(text).ok()).unwrap_or_else(|| {
                let (name, text) = (name.clone(), Arc::clone(text));
                Library { name, text, functions: Vec::new() }
            });
            library.functions.retain(|function| !next.by_function.contains_key(&function.name));
            for function in &library.functions {
                next.by_function.insert(function.name.clone(), name.clone());
            }
            next.by_name.insert(name.clone(), library);
        }
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}

/// What the first line of a library says (`#!lua name=mylib`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHeader {
    pub name: String,
}

impl LibraryHeader {
    /// Reads the first line. What is wrong with it is told in Redis's words, without the prefix.
    pub fn of(text: &[u8]) -> Result<Self, String> {
        if !text.starts_with(b"#!") {
            return Err("Missing library metadata".into());
        }
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.len() == text.len() {
            return Err("Invalid library metadata".into());
        }
        let line = String::from_utf8_lossy(&line[2..]);
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        let mut found = None;
        for word in words {
            let Some(name) = word.strip_prefix("name=") else {
                return Err(format!("Invalid metadata value given: {word}"));
            };
            if found.replace(name).is_some() {
                return Err("Invalid metadata value, name argument was given multiple times".into());
            }
        }
        let name = found.ok_or("Library name was not given")?;
        if !is_library_word(name.as_bytes()) {
            return Err("Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                        character long"
                .into());
        }
        if !engine.eq_ignore_ascii_case("lua") {
            return Err(format!("Engine '{engine}' not found"));
        }
        Ok(Self { name: name.to_owned() })
    }
}

/// Whether libraries and functions may have this name.
#[must_use]
pub fn is_library_word(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Library, Vec<u8>> {
        let header = LibraryHeader::of(text).map_err(String::into_bytes)?;
        let body = String::from_utf8_lossy(text);
        let names = body.lines().skip(1).map(str::to_owned);
        let functions = names.map(|name| FunctionOf { name, description: None, flags: Vec::new() });
        Ok(Library { name: header.name, text: text.into(), functions: functions.collect() })
    }

    fn texts(texts: &[(&str, &str)]) -> BTreeMap<String, Arc<[u8]>> {
        texts.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().into())).collect()
    }

    #[test]
    fn a_function_is_found_until_its_library_is_gone() {
        let shelf = Shelf::reading(read);
        shelf.turn_to(&texts(&[("a", "#!lua name=a\nf\ng"), ("b", "#!lua name=b\nh")]));
        assert_eq!(shelf.held().functions(), 3);
        assert_eq!(shelf.held().function("g").map(|(library, _)| library.name.clone()), Some("a".into()));

        shelf.turn_to(&texts(&[("b", "#!lua name=b\nh")]));
        assert!(shelf.held().function("g").is_none() && shelf.held().function("h").is_some());
    }

    #[test]
    fn of_two_functions_of_one_name_that_of_the_first_library_is_there() {
        let shelf = Shelf::reading(read);
        shelf.turn_to(&texts(&[("a", "#!lua name=a\nf"), ("b", "#!lua name=b\nf\ng"), ("c", "no library")]));

        let held = shelf.held();
        assert_eq!((held.functions(), held.all().len()), (2, 3));
        assert_eq!(held.function("f").map(|(library, _)| library.name.as_str()), Some("a"));
    }

    #[test]
    fn the_first_line_names_the_library() {
        assert_eq!(LibraryHeader::of(b"#!lua name=my_lib1\n"), Ok(LibraryHeader { name: "my_lib1".into() }));
        for (text, why) in [
            ("return 1", "Missing library metadata"),
            ("#!lua name=x", "Invalid library metadata"),
            ("#!lua\n", "Library name was not given"),
            ("#!py name=x\n", "Engine 'py' not found"),
            ("#!lua name=x name=y\n", "Invalid metadata value, name argument was given multiple times"),
            ("#!lua name=x foo=1\n", "Invalid metadata value given: foo=1"),
        ] {
            assert_eq!(LibraryHeader::of(text.as_bytes()), Err(why.into()), "{text}");
        }
        assert!(LibraryHeader::of(b"#!lua name=a-b\n").is_err_and(|why| why.starts_with("Library names can only")));
    }
}
