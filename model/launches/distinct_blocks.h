// How many different selection blocks neighbouring queries read together, by the overlap of two of
// them.
#pragma once

namespace versieve {

// U(C, rho): distinct blocks of `queries` adjacent queries that select `chosen` of `blocks` each,
// clipped to [chosen, min(queries chosen, blocks)]. growth 1 is the linear formula of the cost
// model; below it queries return to blocks that earlier ones left: chain_blocks of as many steps as
// (N^g - 1) / g, g = 1 - (1 - growth) rho^2.5, until a step brings the least that any does.
double distinct_blocks(double queries, double chosen, double blocks, double overlap, double growth);
// Distinct blocks of a chain of sets, each of which replaces a share 1 - rho of its predecessor by
// blocks drawn from all others, after `steps` steps: B - (B - n) (1 - n (1 - rho) / (B - n))^steps.
double chain_blocks(double steps, double chosen, double blocks, double overlap);
// The same where what is drawn is new to the last kChainMemory sets, as far as there are blocks
// (engine/measure/sweep/imposed_blocks.h): n + steps n (1 - rho) at first, then a chain in what is
// left.
inline constexpr double kChainMemory = 7.0;
double remembering_chain_blocks(double steps, double chosen, double blocks, double overlap);

}  // namespace versieve
