//! Trims trailing punctuation and unbalanced brackets.

/// Trims trailing punctuation, quotes and unbalanced brackets.
///
/// `opener` is the character before the DOI, such as the `_` of Markdown emphasis.
pub(super) fn trim_punctuation(text: &str, opener: u8) -> &str {
    let mut rest = text;
    // Opening minus closing brackets of each kind in `rest`, counted once.
    let mut balance: Option<[isize; 4]> = None;
    while let Some(&last) = rest.as_bytes().last() {
        let len = match last {
            b'.' | b',' | b';' | b':' | b'?' | b'!' | b'/' | b'*' | b'"' | b'\'' | b'`' | b'\\' | b'|'
            | b'&' => 1,
            b'(' | b'[' | b'{' | b'<' => {
                if let Some(balance) = balance.as_mut().and_then(|counts| counts.get_mut(bracket_index(last)))
                {
                    *balance -= 1;
                }
                1
            }
            b')' | b']' | b'}' | b'>' => {
                let counts = balance.get_or_insert_with(|| bracket_balance(rest));
                match counts.get_mut(bracket_index(last)) {
                    Some(balance) if *balance < 0 => *balance += 1,
                    _ => break,
                }
                1
            }
            b'_' | b'~' | b'$' | b'=' if last == opener => 1,
            0x80.. => match rest.chars().next_back() {
                Some(last) if is_trailing_punctuation(last) => last.len_utf8(),
                _ => break,
            },
            _ => break,
        };
        rest = rest.get(..rest.len() - len).unwrap_or_default();
    }
    rest
}

/// Whether a non-ASCII character is trimmed: quotes, closing brackets, footnote marks, sentence marks of other scripts.
fn is_trailing_punctuation(character: char) -> bool {
    matches!(
        character,
        '…' | '“'
            | '”'
            | '„'
            | '‘'
            | '’'
            | '«'
            | '»'
            | '‹'
            | '›'
            | '❞'
            | '″'
            | '´'
            | '⟩'
            | '⟫'
            | '⟧'
            | '❩'
            | '⦆'
            | '﹚'
            | '·'
            | '†'
            | '‡'
            | '§'
            | '¶'
            | '،'
            | '؛'
            | '؟'
            | '۔'
            | '।'
            | '‽'
            | '‥'
            | '⋯'
            | '﹐'
    )
}

/// Counts opening minus closing brackets of each kind.
fn bracket_balance(text: &str) -> [isize; 4] {
    let mut balance = [0; 4];
    for byte in text.bytes() {
        let change = match byte {
            b'(' | b'[' | b'{' | b'<' => 1,
            b')' | b']' | b'}' | b'>' => -1,
            _ => continue,
        };
        if let Some(balance) = balance.get_mut(bracket_index(byte)) {
            *balance += change;
        }
    }
    balance
}

/// Index of a kind of bracket in the counts.
pub(super) fn bracket_index(bracket: u8) -> usize {
    match bracket {
        b'(' | b')' => 0,
        b'[' | b']' => 1,
        b'{' | b'}' => 2,
        _ => 3,
    }
}
