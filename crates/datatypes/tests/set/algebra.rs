//! Set algebra against that of ordered sets: sources in all forms, in steps of all sizes.

use std::collections::BTreeSet;

use almandine_datatypes::set::{
    Algebra, Builder, PackedSet, Placement, Position, SetEncoding, SetLimits, SetObject, SetOperation, Source,
};
use almandine_testkit::random::Random;

type Model = BTreeSet<Vec<u8>>;

const LIMITS: SetLimits = SetLimits { integers: 512, entries: 128, value: 64 };

/// A set in one of its forms.
enum Form {
    Packed(Vec<u8>),
    Object(SetObject),
}

impl Form {
    fn as_source(&self) -> Source<'_> {
        match self {
            Self::Packed(bytes) => Source::Packed(PackedSet::new(bytes)),
            Self::Object(object) => Source::Object(object),
        }
    }
}

/// Members of a pool that others are drawn from, too.
fn any_set(random: &mut Random, placement: Placement) -> (Form, Model) {
    let (integers, len) = (random.chance(60), *random.pick(&[0, 1, 5, 40, 200, 3000]));
    let pool = *random.pick(&[10, 100, 5000]);
    let mut model = Model::new();
    for _ in 0..len {
        let number = random.below(pool) as i64 - 50;
        let is_integer = integers || random.chance(20);
        model.insert(if is_integer { number.to_string().into_bytes() } else { format!("m{number}").into_bytes() });
    }
    let mut packed = Vec::new();
    if random.chance(80) && model.iter().all(|member| PackedSet::add(&mut packed, member).is_ok()) {
        return (Form::Packed(packed), model);
    }
    let mut object = SetObject::new(placement);
    model.iter().for_each(|member| assert!(object.add(member).unwrap()));
    (Form::Object(object), model)
}

fn expected(operation: SetOperation, models: &[Model]) -> Model {
    let (first, others) = models.split_first().unwrap();
    others.iter().fold(first.clone(), |result, other| match operation {
        SetOperation::Union => &result | other,
        SetOperation::Intersection => &result & other,
        SetOperation::Difference => &result - other,
    })
}

fn gathered(algebra: &Algebra<'_>, steps: usize, placement: Placement) -> Option<Builder> {
    algebra.gathers()?;
    let (mut object, mut at) = (Builder::new(placement, LIMITS), Some(Position::default()));
    while let Some(from) = at {
        at = algebra.gather(from, steps, &mut object).unwrap();
    }
    Some(object)
}

fn build(algebra: &Algebra<'_>, steps: usize, into: &mut Builder) {
    let mut at = Some(Position::default());
    while let Some(from) = at {
        at = algebra.build(from, steps, into).unwrap();
    }
}

#[test]
fn results_are_those_of_the_model() {
    let mut gatherings = 0;
    for seed in 0..600 {
        let random = &mut Random::new(seed);
        let placement = Placement::new(seed % 3);
        let most = *random.pick(&[1, 2, 4, 30]);
        let count = 1 + random.below(most);
        let (forms, models): (Vec<Form>, Vec<Model>) = (0..count).map(|_| any_set(random, placement)).unzip();
        let sources: Vec<Source<'_>> = forms.iter().map(Form::as_source).collect();
        for operation in [SetOperation::Union, SetOperation::Intersection, SetOperation::Difference] {
            let (expected, steps) = (expected(operation, &models), 1 + random.below(500));
            let mut algebra = Algebra::new(operation, sources.clone());
            let object = gathered(&algebra, steps, placement);
            if let Some(object) = &object {
                algebra = algebra.with_gathered(object.as_source());
                gatherings += 1;
            }
            let (mut all, mut at) = (Vec::new(), Some(Position::default()));
            while let Some(from) = at {
                let mut visits = 1 + random.below(100);
                at = algebra
                    .visit(from, steps, &mut |member| {
                        all.push(member.to_vec());
                        visits -= 1;
                        visits > 0
                    })
                    .unwrap();
            }
            assert_eq!(all.len(), expected.len(), "seed {seed}: {operation:?} of {count}");
            assert_eq!(all.into_iter().collect::<Model>(), expected, "seed {seed}: {operation:?} of {count}");
            for limit in [0, 1, expected.len() / 2, expected.len(), expected.len() + 1] {
                let mut counted = algebra.begin_count(limit);
                while !algebra.count(&mut counted, steps).unwrap() {}
                let least = if limit == 0 { expected.len() } else { expected.len().min(limit) };
                assert_eq!(counted.total(), least, "seed {seed}: {operation:?} of {count} up to {limit}");
            }
            let mut builder = Builder::new(placement, LIMITS);
            build(&Algebra::new(operation, sources.clone()), steps, &mut builder);
            let built: Model = builder.as_source().iter_from(0).map(|member| member.unwrap().to_vec()).collect();
            assert_eq!((builder.len(), &built), (expected.len(), &expected), "seed {seed}: {operation:?} of {count}");
            assert_eq!(encoding(&builder), one_by_one(&expected), "seed {seed}: {operation:?} of {count}");
        }
    }
    assert!(gatherings > 20, "{gatherings}");
}

fn encoding(builder: &Builder) -> SetEncoding {
    match builder.as_source() {
        Source::Packed(packed) => packed.encoding(),
        Source::Object(object) => object.encoding(),
    }
}

/// The encoding of a set that was given its members one after the other, integers first.
fn one_by_one(model: &Model) -> SetEncoding {
    let is_integer = |member: &Vec<u8>| !member.starts_with(b"m");
    let strings = model.iter().filter(|member| !is_integer(member)).count();
    match (strings, model.len()) {
        (0, 0..=512) => SetEncoding::IntSet,
        (1.., 0..=128) => SetEncoding::ListPack,
        _ => SetEncoding::HashTable,
    }
}

#[test]
fn what_a_large_set_has_in_common_with_the_result_is_shared() {
    let placement = Placement::new(3);
    let mut large = SetObject::new(placement);
    (0..100_000u32).for_each(|i| assert!(large.add(&i.to_le_bytes()).unwrap()));
    let mut few = Vec::new();
    (99_990..100_010u32).for_each(|i| assert_eq!(PackedSet::add(&mut few, &i.to_le_bytes()), Ok(true)));
    let sources = [Source::Object(&large), Source::Packed(PackedSet::new(&few))];
    for (operation, len) in [(SetOperation::Union, 100_010), (SetOperation::Difference, 99_990)] {
        let mut builder = Builder::new(placement, LIMITS);
        build(&Algebra::new(operation, sources.to_vec()), 3, &mut builder);
        let Source::Object(built) = builder.as_source() else { panic!("{operation:?} is packed") };
        assert_eq!((built.len(), built.encoding()), (len, SetEncoding::HashTable));
        built.check();
        let place = |set: &SetObject, rank| set.nth(rank).unwrap().unwrap().as_ptr();
        let common = (0..len.min(100_000)).filter(|rank| place(built, *rank) == place(&large, *rank)).count();
        assert!(common > 0, "{operation:?}: nothing is shared");
    }
}
