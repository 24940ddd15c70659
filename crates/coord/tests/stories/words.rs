//! The words of a story's line: `who: verb name key=value flag`.

/// A line that has been taken apart.
pub struct Line<'a> {
    /// The stream that acts, if one does.
    pub who: Option<&'a str>,
    pub verb: &'a str,
    pub rest: Vec<&'a str>,
}

impl<'a> Line<'a> {
    pub fn read(line: &'a str) -> Self {
        let (who, words) = match line.split_once(": ") {
            Some((who, words)) => (Some(who), words),
            None => (None, line),
        };
        let mut words = words.split_whitespace();
        let verb = words.next().expect("a line says what is done");
        Self { who, verb, rest: words.collect() }
    }

    /// The n-th word that is neither a flag nor a pair. `''` stands for nothing.
    pub fn name(&self, place: usize) -> String {
        let word = self.rest.get(place).unwrap_or_else(|| panic!("{} needs a name", self.verb));
        text(word)
    }

    pub fn has(&self, flag: &str) -> bool {
        self.rest.contains(&flag)
    }

    pub fn pair(&self, key: &str) -> Option<String> {
        let found = self.rest.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.map(text)
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.pair(key).map(|value| number(&value))
    }
}

/// `max` is the largest number there is, as in the API.
pub fn number(text: &str) -> u64 {
    match text {
        "max" | "forever" => u64::MAX,
        text => text.parse().unwrap_or_else(|_| panic!("{text} is not a number")),
    }
}

/// `3*x` is `xxx`, for what is too long to be written; `''` is nothing.
fn text(word: &str) -> String {
    let repeated = word.split_once('*').and_then(|(times, letter)| Some(letter.repeat(times.parse().ok()?)));
    match repeated {
        Some(long) => long,
        None if word == "''" => String::new(),
        None => word.to_owned(),
    }
}
