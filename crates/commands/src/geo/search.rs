//! GEOSEARCH and GEOSEARCHSTORE.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler};

use super::answer::{answer, answer_or_store};
use super::query::Form;
use super::{GEO, UNIT};
use crate::traits::{SLOW_READ, SLOW_WRITE};

const COMPLEXITY: &str = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape \
                          provided as the filter and M is the number of items inside the shape";
const HISTORY: &[(&str, &str)] =
    &[("7.0.0", "Added support for uppercase unit names."), ("9.0.0", "Added support for the BYPOLYGON option.")];

/// The shape: around a position, or a polygon.
const AREA: Arg = Arg::one_of(
    "search-type",
    &[
        Arg::block(
            "radius-or-box",
            &[
                Arg::one_of(
                    "from",
                    &[
                        Arg::value("member").token("FROMMEMBER"),
                        Arg::block("fromlonlat", &[Arg::double("longitude"), Arg::double("latitude")]).token("FROMLONLAT"),
                    ],
                ),
                Arg::one_of(
                    "by",
                    &[
                        Arg::block("circle", &[Arg::double("radius").token("BYRADIUS"), UNIT]),
                        Arg::block("box", &[Arg::double("width").token("BYBOX"), Arg::double("height"), UNIT]),
                    ],
                ),
            ],
        ),
        Arg::block(
            "polygon",
            &[
                Arg::integer("num-vertices").token("BYPOLYGON"),
                Arg::block("vertices", &[Arg::double("longitude"), Arg::double("latitude")]).multiple(),
            ],
        )
        .since("9.0.0"),
    ],
);

/// ASC and DESC.
pub(super) const ORDER: Arg = Arg::one_of("order", &[Arg::pure_token("asc", "ASC"), Arg::pure_token("desc", "DESC")]).optional();
const COUNT: Arg =
    Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::pure_token("any", "ANY").optional()]).optional();

pub(super) const WITHCOORD: Arg = Arg::pure_token("withcoord", "WITHCOORD").optional();
pub(super) const WITHDIST: Arg = Arg::pure_token("withdist", "WITHDIST").optional();
pub(super) const WITHHASH: Arg = Arg::pure_token("withhash", "WITHHASH").optional();

pub(super) const GEOSEARCH: Command = Command {
    spec: CommandSpec {
        name: "GEOSEARCH",
        id: 864,
        since: "6.2.0",
        complexity: COMPLEXITY,
        summary: "Queries a geospatial index for members inside an area of a box, a circle or a polygon.",
        args: &[Arg::key("key", Access::Read), AREA, ORDER, COUNT, WITHCOORD, WITHDIST, WITHHASH],
        traits: SLOW_READ,
        arity: -7,
        history: HISTORY,
        ..GEO
    },
    run: Handler::Read(|call| answer(call, Form::Search)),
};

pub(super) const GEOSEARCHSTORE: Command = Command {
    spec: CommandSpec {
        name: "GEOSEARCHSTORE",
        id: 865,
        since: "6.2.0",
        complexity: COMPLEXITY,
        summary: "Queries a geospatial index for members inside an area of a box, a circle or a polygon, optionally stores the \
                  result.",
        args: &[
            Arg::key("destination", Access::Overwrite),
            Arg::key("source", Access::Read),
            AREA,
            ORDER,
            COUNT,
            Arg::pure_token("storedist", "STOREDIST").optional(),
        ],
        traits: SLOW_WRITE,
        arity: -8,
        history: HISTORY,
        ..GEO
    },
    run: Handler::Write(|call| answer_or_store(call, Form::SearchStore)),
};
