//! The cords in the foreground.

use super::noise::{
    Colour, add, coverage, falloff, floor, hash, mix, noise, scale, smooth, to_unit,
};

/// A cord that hangs from the main one.
struct Pendant {
    u: f32,
    length: f32,
    sway: f32,
    thickness: f32,
    colour: Colour,
    knots: Vec<Knot>,
}

/// A knot: where along its cord, how long, with how many turns.
struct Knot {
    at: f32,
    half: f32,
    turns: f32,
}

/// A main cord across the top of the picture, with knotted pendants in groups. As on the old ones,
/// the clusters of knots on a cord are the digits of a number, the units at its end.
pub(super) struct Quipu {
    pendants: Vec<Pendant>,
}

impl Quipu {
    /// The quipu of the scene: its groups, cords, colours and numbers are fixed.
    pub(super) fn new() -> Self {
        const WOOL: [Colour; 6] = [
            [0.62, 0.30, 0.10],
            [0.55, 0.075, 0.055],
            [0.66, 0.55, 0.38],
            [0.075, 0.28, 0.27],
            [0.36, 0.19, 0.085],
            [0.70, 0.42, 0.10],
        ];
        let mut pendants = Vec::new();
        for group in 0..9 {
            let salt = 500 + group as u32;
            let count = 3 + (hash(group, 0, salt) % 3) as i32;
            for cord in 0..count {
                let pick = |n: u32| to_unit(hash(group, 10 + cord, 520 + n));
                let u = -0.86 + 0.215 * group as f32 + 0.030 * (cord as f32 - count as f32 / 2.0);
                // Shorter before the moon and the middle, where there is something to see.
                let open = 1.0 - 0.62 * falloff((u - 0.38) / 0.24) - 0.35 * falloff(u / 0.3);
                let length = (0.13 + 0.34 * pick(0)) * open;
                let thickness = 0.0036 + 0.0011 * pick(1);
                let mut knots = Vec::new();
                for digit in 0..3u32 {
                    let value = hash(group, cord, 540 + digit) % 6;
                    let start = length * (0.24 + 0.27 * digit as f32);
                    if digit == 2 {
                        // Units: one long knot, a turn for each.
                        let half = 0.0045 + 0.0022 * value as f32;
                        let turns = 2.0 + value as f32;
                        knots.push(Knot {
                            at: start + half,
                            half,
                            turns,
                        });
                    } else {
                        for n in 0..value.min(4) {
                            let at = start + 0.0135 * n as f32;
                            knots.push(Knot {
                                at,
                                half: 0.0052,
                                turns: 1.5,
                            });
                        }
                    }
                }
                knots.retain(|knot| knot.at + knot.half < length);
                pendants.push(Pendant {
                    u,
                    length,
                    sway: 0.05 * (pick(2) - 0.5),
                    thickness,
                    colour: WOOL[(hash(group, cord / 2, 560) % 6) as usize],
                    knots,
                });
            }
        }
        Self { pendants }
    }

    /// The height of the main cord's middle: a parabola.
    fn hang(u: f32) -> f32 {
        0.098 - 0.062 * (u / 0.9) * (u / 0.9)
    }

    /// Draws its part in the pixel over `light`.
    pub(super) fn draw(&self, u: f32, v: f32, unit: f32, light: &mut Colour) {
        if v > 0.62 {
            return;
        }
        for pendant in &self.pendants {
            if (u - pendant.u).abs() < 0.06 {
                pendant.draw(u, v, unit, light);
            }
        }
        // The main cord: two thick strands, twisted.
        let slope = -2.0 * 0.062 * u / (0.9 * 0.9);
        let across = (v - Self::hang(u)) / (1.0 + slope * slope).sqrt();
        let strand = Strand {
            across: across / 0.0088,
            along: u / 0.0088,
            twist: 0.62,
        };
        let inside = coverage(0.0088 * strand.edge() - across.abs(), unit);
        *light = mix(*light, strand.shade([0.52, 0.33, 0.16], [u, v]), inside);
    }
}

impl Pendant {
    fn draw(&self, u: f32, v: f32, unit: f32, light: &mut Colour) {
        let top = Quipu::hang(self.u);
        let down = v - top;
        if down < -0.016 || down > self.length + 0.02 {
            return;
        }
        let part = (down / self.length).max(0.0);
        let middle = self.u + self.sway * self.length * 2.0 * part * part;
        let across = u - middle;
        let mut thickness = self.thickness;
        let mut twist = 0.75;
        if down < 0.014 {
            // The loop around the main cord.
            thickness *= 1.75 - 0.6 * smooth(down / 0.014);
            twist = -0.4;
        } else if down > self.length - 0.004 {
            // The end frays out.
            let end = (down - self.length + 0.004) / 0.020;
            let hairs = noise(u * 900.0, 2.0, 570) - 0.35;
            thickness *= if end < hairs { 1.0 + 1.2 * end } else { 0.0 };
        }
        for knot in &self.knots {
            let from = (down - knot.at) / knot.half;
            if from.abs() < 1.0 {
                let bulge = (1.0 - from * from).sqrt();
                let phase = (from + 1.0) / 2.0 * knot.turns;
                let lobe = 4.0 * (phase - floor(phase)) * (1.0 - (phase - floor(phase)));
                thickness = self.thickness * (1.0 + bulge * (0.85 + 0.55 * lobe.sqrt()));
                twist = -0.35;
            }
        }
        if thickness <= 0.0 {
            return;
        }
        let strand = Strand {
            across: across / thickness,
            along: down / thickness,
            twist,
        };
        let inside = coverage(thickness * strand.edge() - across.abs(), unit);
        if inside > 0.0 {
            *light = mix(*light, strand.shade(self.colour, [u, v]), inside);
        }
    }
}

/// A point of a twisted cord: across from -1 to 1, along in units of its radius.
struct Strand {
    across: f32,
    along: f32,
    twist: f32,
}

impl Strand {
    /// The position of the point in a strand: 0 in the groove between two, 1 on top.
    fn top(&self) -> f32 {
        let bent = self.across * (1.0 + 0.4 * self.across * self.across);
        let phase = self.along * 0.55 + bent * self.twist;
        let part = phase - floor(phase);
        4.0 * part * (1.0 - part)
    }

    /// The distance of the cord's edge here.
    fn edge(&self) -> f32 {
        0.88 + 0.12 * self.top()
    }

    /// Its wool in the moon's light from the right and the last light from below.
    fn shade(&self, colour: Colour, [u, v]: [f32; 2]) -> Colour {
        let across = self.across.clamp(-1.0, 1.0);
        let facing = (1.0 - across * across).sqrt();
        let moon = (0.35 * facing + 0.75 * across).max(0.0);
        let warm = (0.35 * facing - 0.45 * across).max(0.0);
        let groove = 0.28 + 0.72 * self.top().sqrt();
        let fibre = 0.72 + 0.56 * noise(u * 1300.0 + v * 500.0, v * 700.0 - u * 300.0, 580);
        let lamp = add(
            add([0.10, 0.10, 0.13], scale([0.62, 0.64, 0.72], moon)),
            scale([0.50, 0.26, 0.16], warm),
        );
        let wool = scale(colour, groove * fibre);
        [wool[0] * lamp[0], wool[1] * lamp[1], wool[2] * lamp[2]]
    }
}
