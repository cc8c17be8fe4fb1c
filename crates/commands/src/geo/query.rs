//! What a search asks for.
//!
//! The centre may be a member, whose position is looked up where its name stands among the arguments: whether it is there is
//! told before later arguments are looked at. So a query is read while the sorted set is open.

use almandine_datatypes::geo::{DistanceUnit, Point, Shape};
use almandine_handler::{CommandError, Options, Stop, Word, errors, number};
use almandine_keyspace::types::sorted_set::SortedSet;
use almandine_resp::Args;

use super::arguments::{point, radius, size};

/// The forms of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS: a position, a radius. `stores`: not the `_RO` form.
    Radius { stores: bool },
    /// GEORADIUSBYMEMBER: a member, a radius.
    RadiusByMember { stores: bool },
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

impl Form {
    /// The argument with the key that is searched.
    pub(super) fn source(self) -> usize {
        if self == Self::SearchStore { 2 } else { 1 }
    }

    /// The first option.
    fn options(self) -> usize {
        match self {
            Self::Radius { .. } => 6,
            Self::RadiusByMember { .. } => 5,
            Self::Search => 2,
            Self::SearchStore => 3,
        }
    }

    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }

    /// Whether there may be a word STORE.
    fn may_store(self) -> bool {
        matches!(self, Self::Radius { stores: true } | Self::RadiusByMember { stores: true })
    }
}

/// In which order members are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The closest one first.
    Ascending,
    /// The farthest one first.
    Descending,
}

/// A query.
#[derive(Debug)]
pub(super) struct Query {
    /// Lengths are in metres. None: the centre is a member of a sorted set that is not there.
    pub(super) shape: Option<Shape>,
    /// Of distances that are answered.
    pub(super) unit: DistanceUnit,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_position: bool,
    /// None: whichever is found first.
    pub(super) order: Option<Order>,
    pub(super) count: Option<usize>,
    /// As soon as there are enough, they will do.
    pub(super) any: bool,
    /// The argument with the key where the result goes.
    pub(super) destination: Option<usize>,
    pub(super) stores_distance: bool,
}

/// What a search is about, as far as it has been said.
#[derive(Default)]
struct Said {
    /// By a position, or by a member, which then is not there when there is no point.
    centre: Option<Centre>,
    extent: Option<Extent>,
}

#[derive(Clone, Copy)]
enum Centre {
    Position(Point),
    Member(Option<Point>),
}

enum Extent {
    Radius(f64),
    Size([f64; 2]),
    Polygon(Vec<Point>),
}

impl Query {
    /// Reads the arguments. `set` is what is searched, if it is there.
    ///
    /// # Errors
    /// When they are wrong, or the member at the centre is not there or not in memory.
    pub(super) fn read(args: Args<'_>, form: Form, set: Option<&SortedSet<'_>>) -> Result<Self, Stop> {
        let mut query = Self {
            shape: None,
            unit: DistanceUnit::Metre,
            with_distance: false,
            with_hash: false,
            with_position: false,
            order: None,
            count: None,
            any: false,
            destination: (form == Form::SearchStore).then_some(1),
            stores_distance: false,
        };
        let mut said = query.begin(args, form, set)?;
        let mut options = Options::after(args, form.options());
        while let Some(word) = options.next() {
            query.option(word, &mut options, form, set, &mut said)?;
        }
        query.check(args, form, &said)?;
        query.shape = said.shape(query.unit);
        Ok(query)
    }

    /// The arguments before the options.
    fn begin(&mut self, args: Args<'_>, form: Form, set: Option<&SortedSet<'_>>) -> Result<Said, Stop> {
        let centre = match form {
            Form::Radius { .. } => Centre::Position(point(args.at(2), args.at(3))?),
            Form::RadiusByMember { .. } if set.is_some() => member(args.at(2), set)?,
            // Of a sorted set that is not there, only the options are looked at.
            _ => return Ok(Said::default()),
        };
        let at = form.options() - 2;
        let (radius, unit) = radius(args.at(at), args.at(at + 1))?;
        self.unit = unit;
        Ok(Said { centre: Some(centre), extent: Some(Extent::Radius(radius)) })
    }

    fn option(
        &mut self,
        word: Word<'_>,
        options: &mut Options<'_>,
        form: Form,
        set: Option<&SortedSet<'_>>,
        said: &mut Said,
    ) -> Result<(), Stop> {
        match word {
            w if w.is("WITHDIST") => self.with_distance = true,
            w if w.is("WITHHASH") => self.with_hash = true,
            w if w.is("WITHCOORD") => self.with_position = true,
            w if w.is("ANY") => self.any = true,
            w if w.is("ASC") => self.order = Some(Order::Ascending),
            w if w.is("DESC") => self.order = Some(Order::Descending),
            w if w.is("COUNT") && options.remaining() > 0 => {
                let count = options.integer()?;
                if count <= 0 {
                    return Err(errors::geo::COUNT_NOT_POSITIVE.into());
                }
                self.count = Some(usize::try_from(count).unwrap_or(usize::MAX));
            }
            w if form.may_store() && (w.is("STORE") || w.is("STOREDIST")) && options.remaining() > 0 => {
                self.destination = Some(Options::position(options));
                self.stores_distance = w.is("STOREDIST");
                options.value()?;
            }
            w if w.is("STOREDIST") && form == Form::SearchStore => self.stores_distance = true,
            w if form.is_search() => self.unit = said.about(w, options, set)?.unwrap_or(self.unit),
            _ => return Err(CommandError::Syntax.into()),
        }
        Ok(())
    }

    fn check(&self, args: Args<'_>, form: Form, said: &Said) -> Result<(), CommandError> {
        if self.destination.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let is_search = form == Form::SearchStore;
            return Err(if is_search { errors::geo::SEARCH_STORE_WITH } else { errors::geo::RADIUS_STORE_WITH });
        }
        let is_polygon = matches!(said.extent, Some(Extent::Polygon(_)));
        if form.is_search() && said.centre.is_none() && !is_polygon {
            return Err(errors::geo::search_without_centre(args.at(0)));
        }
        if form.is_search() && said.extent.is_none() {
            return Err(errors::geo::search_without_shape(args.at(0)));
        }
        if self.any && self.count.is_none() { Err(errors::geo::ANY_WITHOUT_COUNT) } else { Ok(()) }
    }
}

/// The position of a member, of a sorted set that is there.
fn member(name: &[u8], set: Option<&SortedSet<'_>>) -> Result<Centre, Stop> {
    let Some(set) = set else { return Ok(Centre::Member(None)) };
    let score = set.score(name)?.ok_or(errors::geo::MEMBER_NOT_DECODED)?;
    Ok(Centre::Member(Some(Point::of_score(score))))
}

impl Said {
    /// Takes an option that says where to search. The unit, if that says one.
    fn about(
        &mut self,
        word: Word<'_>,
        options: &mut Options<'_>,
        set: Option<&SortedSet<'_>>,
    ) -> Result<Option<DistanceUnit>, Stop> {
        let left = options.remaining();
        let is_polygon = matches!(self.extent, Some(Extent::Polygon(_)));
        match word {
            w if w.is("FROMMEMBER") && left >= 1 && !is_polygon && !matches!(self.centre, Some(Centre::Position(_))) => {
                self.centre = Some(member(options.value()?, set)?);
                Ok(None)
            }
            w if w.is("FROMLONLAT") && left >= 2 && !is_polygon && !matches!(self.centre, Some(Centre::Member(_))) => {
                self.centre = Some(Centre::Position(point(options.value()?, options.value()?)?));
                Ok(None)
            }
            w if w.is("BYRADIUS") && left >= 2 && !is_polygon && !matches!(self.extent, Some(Extent::Size(_))) => {
                let (radius, unit) = radius(options.value()?, options.value()?)?;
                self.extent = Some(Extent::Radius(radius));
                Ok(Some(unit))
            }
            w if w.is("BYBOX") && left >= 3 && !is_polygon && !matches!(self.extent, Some(Extent::Radius(_))) => {
                let (size, unit) = size(options.value()?, options.value()?, options.value()?)?;
                self.extent = Some(Extent::Size(size));
                Ok(Some(unit))
            }
            w if w.is("BYPOLYGON") && left >= 2 && self.centre.is_none() && (is_polygon || self.extent.is_none()) => {
                self.extent = Some(Extent::Polygon(polygon(options)?));
                Ok(Some(DistanceUnit::Metre))
            }
            _ => Err(CommandError::Syntax.into()),
        }
    }

    fn shape(self, unit: DistanceUnit) -> Option<Shape> {
        let centre = match self.centre {
            Some(Centre::Position(point)) => Some(point),
            Some(Centre::Member(point)) => point,
            None => None,
        };
        let metres = unit.metres();
        match self.extent? {
            Extent::Radius(radius) => Some(Shape::Circle { centre: centre?, radius: radius * metres }),
            Extent::Size([width, height]) => Some(Shape::Box { centre: centre?, width: width * metres, height: height * metres }),
            Extent::Polygon(vertices) => Some(Shape::Polygon(vertices)),
        }
    }
}

/// A number of vertices, and the vertices.
fn polygon(options: &mut Options<'_>) -> Result<Vec<Point>, CommandError> {
    let count = number::integer(options.value()?).ok().and_then(|count| i32::try_from(count).ok());
    let count = usize::try_from(count.ok_or(errors::geo::VERTICES_NOT_A_NUMBER)?).unwrap_or(0);
    if count < 3 || options.remaining() / 2 < count {
        return Err(errors::geo::TOO_FEW_VERTICES);
    }
    (0..count).map(|_| point(options.value()?, options.value()?)).collect()
}
