//! Many thousands of valid and damaged streams, the same ones in every run, parsed whole and in pieces, and compared with a
//! model. The coverage-guided sibling is `fuzz/fuzz_targets/resp_parser.rs`.

mod client;
mod common;

use almandine_resp::Limits;
use client::{Decoder, decode};
use common::{Random, model, parse};

#[test]
fn parser_agrees_with_the_model_however_the_stream_is_cut() {
    let mut random = Random(0x00A1_3A7D_19E5);
    for round in 0..200_000 {
        let stream = random.stream();
        let limits = Limits {
            authenticated: random.below(4) > 0,
            inline_bytes_max: [64 * 1024, 20][random.below(2)],
            bulk_bytes_max: [512 * 1024 * 1024, 50][random.below(2)],
            multibulk_max: [i32::MAX as usize, 10][random.below(2)],
        };
        let expected = model(&stream, &limits);
        let show = || format!("round {round}: {}", stream.escape_ascii());
        assert_eq!(parse(&stream, &[], &limits, usize::MAX), expected, "{}", show());
        let mut cuts: Vec<_> = (0..random.below(6)).map(|_| random.below(stream.len() + 1)).collect();
        cuts.sort_unstable();
        assert_eq!(parse(&stream, &cuts, &limits, 1 + random.below(4)), expected, "cut at {cuts:?}, {}", show());
        if round % 16 == 0 {
            let every: Vec<_> = (0..stream.len()).collect();
            assert_eq!(parse(&stream, &every, &limits, usize::MAX), expected, "byte by byte, {}", show());
        }
    }
}

#[test]
fn decoder_survives_damage_and_does_not_depend_on_cuts() {
    const REPLIES: [&[u8]; 16] = [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-12\r\n",
        b"$3\r\na\nb\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*2\r\n:1\r\n$0\r\n\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b",inf\r\n",
        b"(123456789012345678901234567890\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"%1\r\n+k\r\n~2\r\n:1\r\n:2\r\n",
        b">1\r\n!5\r\nERR x\r\n",
        b"|1\r\n+a\r\n:1\r\n*0\r\n",
    ];
    let mut random = Random(0x5EED);
    for _ in 0..200_000 {
        let mut stream: Vec<u8> = (0..1 + random.below(5)).flat_map(|_| REPLIES[random.below(REPLIES.len())]).copied().collect();
        for _ in 0..random.below(3) {
            let (at, byte) = (random.below(stream.len()), b"*$%|>~+-:_#,(!=0129\r\nx"[random.below(22)]);
            stream[at] = byte;
        }
        let (mut whole, mut at) = (Vec::new(), 0);
        let end = loop {
            match decode(&stream[at..]) {
                Ok(Some((value, len))) => {
                    whole.push(value);
                    at += len;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let (mut pieces, mut from, mut decoder) = (Vec::new(), 0, Decoder::new());
        let mut result = Ok(());
        let mut cuts: Vec<_> = (0..random.below(8)).map(|_| random.below(stream.len() + 1)).chain([stream.len()]).collect();
        cuts.sort_unstable();
        'stream: for to in cuts {
            loop {
                match decoder.decode(&stream[from..to]) {
                    Ok((consumed, value)) => {
                        from += consumed;
                        match value {
                            Some(value) => pieces.push(value),
                            None => break,
                        }
                    }
                    Err(error) => {
                        result = Err(error);
                        break 'stream;
                    }
                }
            }
        }
        assert_eq!((pieces, result), (whole, end), "{}", stream.escape_ascii());
    }
}
