//! LOLWUT: an almandine, which is a garnet, and garnets grow as rhombic dodecahedra.

use almandine_command_spec::{Arg, Category, CommandSpec, Group, Traits};
use almandine_handler::{Command, Handler, Outcome, ReadCall, Word, number};
use almandine_instance::{REDIS_VERSION, VERSION};

pub(super) const COMMANDS: &[&Command] = &[&LOLWUT];

const LOLWUT: Command = Command {
    spec: CommandSpec {
        name: "LOLWUT",
        id: 474,
        since: "5.0.0",
        complexity: "",
        summary: "Displays computer art and the Redis version",
        group: Group::Server,
        args: &[Arg::integer("version").token("VERSION").optional()],
        traits: Traits { readonly: true, fast: true, ..Traits::NONE },
        categories: Some(&[Category::Read]),
        arity: -1,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(lolwut),
};

/// Width and height of the drawing in characters, which are about twice as high as wide.
const SIZE: (usize, usize) = (44, 22);

/// Any version shows the same crystal; each minute turns it a little.
fn lolwut(call: &mut ReadCall<'_>) -> Outcome {
    if let Some(word) = call.args.get(1).map(Word)
        && word.is("VERSION")
        && let Some(version) = call.args.get(2)
    {
        number::integer(version)?;
    }
    let minute = call.now_ms() / 60_000;
    #[expect(clippy::cast_precision_loss, reason = "an angle")]
    let turn = minute.rem_euclid(60) as f64 * 0.1 + 0.35;
    let mut art = draw(turn);
    art.push_str(&format!("\nAlmandine ver. {VERSION}\nRedis ver. {REDIS_VERSION}\n"));
    call.reply.verbatim(art.as_bytes());
    Ok(())
}

type Point = [f64; 3];

/// The edges of a rhombic dodecahedron: each corner of a cube is joined to the three neighbouring corners of an octahedron twice as
/// large.
fn edges() -> impl Iterator<Item = (Point, Point)> {
    let signs = [-1.0, 1.0];
    let corners =
        signs.into_iter().flat_map(move |x| signs.into_iter().flat_map(move |y| signs.into_iter().map(move |z| [x, y, z])));
    corners.flat_map(|corner: Point| {
        (0..3).map(move |axis| {
            let mut tip = [0.0; 3];
            tip[axis] = 2.0 * corner[axis];
            (corner, tip)
        })
    })
}

/// Turns a point around the vertical and then tilts it towards the viewer; returns where it is seen and how near it is.
fn project(point: Point, turn: f64) -> (f64, f64, f64) {
    let (sin, cos) = turn.sin_cos();
    let (x, depth) = (point[0] * cos - point[1] * sin, point[0] * sin + point[1] * cos);
    let (sin, cos) = 0.45_f64.sin_cos();
    (x, point[2] * cos - depth * sin, point[2] * sin + depth * cos)
}

fn draw(turn: f64) -> String {
    const STEPS: u32 = 60;
    let mut canvas = vec![vec![(b' ', f64::NEG_INFINITY); SIZE.0]; SIZE.1];
    for (from, to) in edges() {
        let (from, to) = (project(from, turn), project(to, turn));
        for step in 0..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let between = |a: f64, b: f64| a + (b - a) * part;
            let (x, y, near) = (between(from.0, to.0), between(from.1, to.1), between(from.2, to.2));
            let ink = match near {
                _ if step == 0 || step == STEPS => b'o',
                near if near > 0.2 => b'#',
                near if near > -0.8 => b'+',
                _ => b'.',
            };
            plot(&mut canvas, x, y, near, ink);
        }
    }
    let lines = canvas.into_iter().map(|row| row.into_iter().map(|(ink, _)| char::from(ink)).collect::<String>());
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Nearer strokes cover farther ones.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place on a small canvas"
)]
fn plot(canvas: &mut [Vec<(u8, f64)>], x: f64, y: f64, near: f64, ink: u8) {
    let (width, height) = (SIZE.0 as f64, SIZE.1 as f64);
    let column = (x / 4.4 + 0.5) * width;
    let row = (0.5 - y / 4.4) * height;
    let Some(place) = canvas.get_mut(row.max(0.0) as usize).and_then(|row| row.get_mut(column.max(0.0) as usize)) else { return };
    if near > place.1 {
        *place = (ink, near);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crystal_fills_the_canvas_from_every_side() {
        for step in 0..60 {
            let art = draw(f64::from(step) * 0.1);
            assert_eq!(art.lines().count(), SIZE.1);
            assert!(art.lines().all(|line| line.len() <= SIZE.0));
            assert!(art.bytes().filter(|ink| !ink.is_ascii_whitespace()).count() > 150, "\n{art}");
        }
    }
}
