// The fields of a fit and of what it is made of, one after the other: what writes, reads or hashes
// them visits them here. Bindings name every field of a struct, so that a new one must be added
// here to compile.
#pragma once

#include <concepts>
#include <type_traits>

#include "engine/analyse/fit/cost_fit.h"

namespace versieve::engine {

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// What was measured.
template <class A, Is<PointKey> T>
void visit_fields(A& a, T& x) {
  auto& [workload, model, pair, regime, split, strategy, dtype, backend, cache_state, launch,
         context_len, num_queries, overlap, temperature] = x;
  a(workload, model, pair, regime, split, strategy, dtype, backend, cache_state, launch,
    context_len, num_queries, overlap, temperature);
}
template <class A, Is<Traffic> T>
void visit_fields(A& a, T& x) {
  auto& [read_bytes, write_bytes, flops] = x;
  a(read_bytes, write_bytes, flops);
}
template <class A, Is<CounterValue> T>
void visit_fields(A& a, T& x) {
  auto& [metric, value, status] = x;
  a(metric, value, status);
}
template <class A, Is<RangeMeasurement> T>
void visit_fields(A& a, T& x) {
  auto& [path, launches, predicted, gpu_time_ns, counters] = x;
  a(path, launches, predicted, gpu_time_ns, counters);
}
template <class A, Is<AcceptanceWalk> T>
void visit_fields(A& a, T& x) {
  auto& [text, yields] = x;
  a(text, yields);
}
template <class A, Is<TextYield> T>
void visit_fields(A& a, T& x) {
  auto& [text, steps, tokens, looping] = x;
  a(text, steps, tokens, looping);
}
template <class A, Is<AcceptanceMeasurement> T>
void visit_fields(A& a, T& x) {
  auto& [steps, generated_tokens, accepted_histogram, accepted_per_step, looping, teacher_forced,
         walks, texts] = x;
  a(steps, generated_tokens, accepted_histogram, accepted_per_step, looping, teacher_forced, walks,
    texts);
}
template <class A, Is<BlockSharing> T>
void visit_fields(A& a, T& x) {
  auto& [along, layer, steps, overlap, group_blocks, loads_saved, next_layer] = x;
  a(along, layer, steps, overlap, group_blocks, loads_saved, next_layer);
}
template <class A, Is<PointMeasurement> T>
void visit_fields(A& a, T& x) {
  auto& [key, status, reason, time_ns, stop_reason, reliability, clock_events, adjacent_overlap,
         unique_blocks, ranges, acceptance, sharing] = x;
  a(key, status, reason, time_ns, stop_reason, reliability, clock_events, adjacent_overlap,
    unique_blocks, ranges, acceptance, sharing);
}

template <class A, Is<PairId> T>
void visit_fields(A& a, T& x) {
  auto& [name, sha256] = x;
  a(name, sha256);
}

// The machine.
template <class A, Is<HardwareValue> T>
void visit_fields(A& a, T& x) {
  auto& [value, source, verified] = x;
  a(value, source, verified);
}
template <class A, Is<MeasuredFigure> T>
void visit_fields(A& a, T& x) {
  auto& [name, figure] = x;
  a(name, figure);
}
template <class A, Is<RateScale> T>
void visit_fields(A& a, T& x) {
  auto& [read, written_time, l2, products, graph_gap, stream_gap] = x;
  a(read, written_time, l2, products, graph_gap, stream_gap);
}
template <class A, Is<HardwareSpec> T>
void visit_fields(A& a, T& x) {
  auto& [key, name, fields, measured, scale] = x;
  a(key, name, fields, measured, scale);
}
template <class A, Is<MachineShares> T>
void visit_fields(A& a, T& x) {
  auto& [read, copy, l2, products, graph_launch, stream_launch] = x;
  a(read, copy, l2, products, graph_launch, stream_launch);
}

// The fitted model.
template <class A, Is<DraftChoice> T>
void visit_fields(A& a, T& x) {
  auto& [depth, width, nodes] = x;
  a(depth, width, nodes);
}
template <class A, Is<Strategy> T>
void visit_fields(A& a, T& x) {
  auto& [attention, resa_key_block, resa_active_ratio, resa_rectify_every, resa_n_min, resa_n_local,
         specattn_p, indexer_k, indexer_window, draft, order, group_size, group_mode, schedule,
         topk, sampling, form, drafts_itself, adapts_length] = x;
  a(attention, resa_key_block, resa_active_ratio, resa_rectify_every, resa_n_min, resa_n_local,
    specattn_p, indexer_k, indexer_window, draft, order, group_size, group_mode, schedule, topk,
    sampling, form, drafts_itself, adapts_length);
}
template <class A, Is<RunConditions> T>
void visit_fields(A& a, T& x) {
  auto& [cache, launch] = x;
  a(cache, launch);
}
template <class A, Is<ParameterEstimate> T>
void visit_fields(A& a, T& x) {
  auto& [value, low, high, informed, at_bound] = x;
  a(value, low, high, informed, at_bound);
}
template <class A, Is<ResidualField::Family> T>
void visit_fields(A& a, T& x) {
  auto& [family, length, anchors, weights] = x;
  a(family, length, anchors, weights);
}
template <class A, Is<ResidualField> T>
void visit_fields(A& a, T& x) {
  auto& [families] = x;
  a(families);
}
template <class A, Is<ErrorQuantile> T>
void visit_fields(A& a, T& x) {
  auto& [context_low, context_high, log_latency, log_dram, points, log_latency_left_out] = x;
  a(context_low, context_high, log_latency, log_dram, points, log_latency_left_out);
}
template <class A, Is<MeasuredRegime> T>
void visit_fields(A& a, T& x) {
  auto& [workload, geometry, context_len, num_queries, points] = x;
  a(workload, geometry, context_len, num_queries, points);
}
template <class A, Is<MeasuredStep> T>
void visit_fields(A& a, T& x) {
  auto& [strategy, context_len, time_us, log_error, predicted_us, source, draft_vocab, geometry,
         overlap, temperature] = x;
  a(strategy, context_len, time_us, log_error, predicted_us, source, draft_vocab, geometry, overlap,
    temperature);
}
template <class A, Is<SystemQuantile> T>
void visit_fields(A& a, T& x) {
  auto& [name, log_latency, points, longest] = x;
  a(name, log_latency, points, longest);
}
template <class A, Is<BatchTermEstimate> T>
void visit_fields(A& a, T& x) {
  auto& [value, low, high, informed] = x;
  a(value, low, high, informed);
}
template <class A, Is<BatchWidth> T>
void visit_fields(A& a, T& x) {
  auto& [requests, log_latency] = x;
  a(requests, log_latency);
}
template <class A, Is<BatchFit> T>
void visit_fields(A& a, T& x) {
  auto& [points, dense_points, launch, terms, together, dense_together, kinds, time, bytes,
         log_latency, widths, least_overlap, most_requests, most_rows] = x;
  a(points, dense_points, launch, terms, together, dense_together, kinds, time, bytes, log_latency,
    widths, least_overlap, most_requests, most_rows);
}
template <class A, Is<EnergyLaw> T>
void visit_fields(A& a, T& x) {
  auto& [points, watts, joules_per_byte, joules_per_flop, log_error, most_requests] = x;
  a(points, watts, joules_per_byte, joules_per_flop, log_error, most_requests);
}
template <class A, Is<PriorFit> T>
void visit_fields(A& a, T& x) {
  auto& [device, points, runs, scale] = x;
  a(device, points, runs, scale);
}
template <class A, Is<AcceptanceModel::Measured> T>
void visit_fields(A& a, T& x) {
  auto& [draft, order, schedule, context_len, mean, standard_error, steps, looping, at_least,
         approximate_group] = x;
  a(draft, order, schedule, context_len, mean, standard_error, steps, looping, at_least,
    approximate_group);
}
template <class A, Is<AcceptanceModel::Variant> T>
void visit_fields(A& a, T& x) {
  auto& [schedule, approximate_group, order, log_ratio, log_error, comparisons] = x;
  a(schedule, approximate_group, order, log_ratio, log_error, comparisons);
}
template <class A, Is<AcceptanceModel::OrderSharing> T>
void visit_fields(A& a, T& x) {
  auto& [measured, overlap, group] = x;
  a(measured, overlap, group);
}
template <class A, Is<AcceptanceModel::Positional> T>
void visit_fields(A& a, T& x) {
  auto& [context_low, context_high, first, siblings, decay, log_error, overlap, covariance,
         other_context, orders] = x;
  a(context_low, context_high, first, siblings, decay, log_error, overlap, covariance,
    other_context, orders);
}
template <class A, Is<TextSpread> T>
void visit_fields(A& a, T& x) {
  auto& [rate, texts, evidence] = x;
  a(rate, texts, evidence);
}
template <class A, Is<AcceptanceModel> T>
void visit_fields(A& a, T& x) {
  auto& [pair, sha256, overlap_of, origin, note, measured, positional, variants, texts] = x;
  a(pair, sha256, overlap_of, origin, note, measured, positional, variants, texts);
}
// But the last three, which are of the planned pair and its texts (use_pair).
template <class A, Is<FittedModel> T>
void visit_fields(A& a, T& x) {
  auto& [device, hardware_key, geometry, steps_pair, dtype, conditions, evidence, points, runs,
         estimates, attention_time, step_time, errors, regimes, steps, small_pair_nodes, acceptance,
         system_time, systems, batch, energy, machine, prior, chain_shares, lent_shares,
         temperature] = x;
  a(device, hardware_key, geometry, steps_pair, dtype, conditions, evidence, points, runs,
    estimates, attention_time, step_time, errors, regimes, steps, small_pair_nodes, acceptance,
    system_time, systems, batch, energy, machine, prior);
}

// What is said of it.
template <class A, Is<ErrorSummary> T>
void visit_fields(A& a, T& x) {
  auto& [points, median_ape, p90_ape, median_signed] = x;
  a(points, median_ape, p90_ape, median_signed);
}
template <class A, Is<RegimeError> T>
void visit_fields(A& a, T& x) {
  auto& [workload, context, queries, latency, dram_bytes] = x;
  a(workload, context, queries, latency, dram_bytes);
}
template <class A, Is<TermError> T>
void visit_fields(A& a, T& x) {
  auto& [launch, predicted_bytes, measured_bytes, predicted_by_term, dram_bytes, latency] = x;
  a(launch, predicted_bytes, measured_bytes, predicted_by_term, dram_bytes, latency);
}
template <class A, Is<LeftOutError> T>
void visit_fields(A& a, T& x) {
  auto& [axis, value, beyond, latency, dram_bytes, interval_coverage_90] = x;
  a(axis, value, beyond, latency, dram_bytes, interval_coverage_90);
}
template <class A, Is<ComparedPoint> T>
void visit_fields(A& a, T& x) {
  auto& [key, held_out, measured_us, measured_bytes, measured_read, predicted_us, closed_form_us,
         predicted_bytes, predicted_read] = x;
  a(key, held_out, measured_us, measured_bytes, measured_read, predicted_us, closed_form_us,
    predicted_bytes, predicted_read);
}
template <class A, Is<SparseTermError> T>
void visit_fields(A& a, T& x) {
  auto& [term, axis, beyond, latency, dram_bytes, of_formula, of_formula_least, of_formula_most] =
      x;
  a(term, axis, beyond, latency, dram_bytes, of_formula, of_formula_least, of_formula_most);
}

template <class A, Is<SystemError> T>
void visit_fields(A& a, T& x) {
  auto& [name, points, latency, dram_bytes, log_latency] = x;
  a(name, points, latency, dram_bytes, log_latency);
}
template <class A, Is<ApartSteps> T>
void visit_fields(A& a, T& x) {
  auto& [geometry, before, latency] = x;
  a(geometry, before, latency);
}
template <class A, Is<CoverageRow> T>
void visit_fields(A& a, T& x) {
  auto& [context, points, covered] = x;
  a(context, points, covered);
}
template <class A, Is<PairCounts> T>
void visit_fields(A& a, T& x) {
  auto& [agreeing, opposed, tied_measured, tied_predicted] = x;
  a(agreeing, opposed, tied_measured, tied_predicted);
}
template <class A, Is<RankedClass> T>
void visit_fields(A& a, T& x) {
  auto& [context, precision, pairs, tau] = x;
  a(context, precision, pairs, tau);
}
template <class A, Is<FitReport> T>
void visit_fields(A& a, T& x) {
  auto& [model, holdout, points_train, points_holdout, dram_bytes, dram_read, dram_fused,
         dram_vanilla, dram_warm, dram_few, dram_few_error, latency, closed_form_latency,
         interval_coverage_90, unseen_coverage_90, coverage, ranked, kendall_tau, least_kendall_tau,
         top1_regret, worst_regret, worst_choice, left_out, left_out_latency, left_out_dram,
         left_out_coverage_90, compared, by_regime, by_term, systems, sparse_terms, system_latency,
         system_dram, apart, batches, batch_latency, batch_dram, batch_closed_latency,
         batch_coverage_90, batch_compared, energy, skipped] = x;
  a(model, holdout, points_train, points_holdout, dram_bytes, dram_read, dram_fused, dram_vanilla,
    dram_warm, dram_few, dram_few_error, latency, closed_form_latency, interval_coverage_90,
    unseen_coverage_90, coverage, ranked, kendall_tau, least_kendall_tau, top1_regret, worst_regret,
    worst_choice, left_out, left_out_latency, left_out_dram, left_out_coverage_90, compared,
    by_regime, by_term, systems, sparse_terms, system_latency, system_dram, apart, batches,
    batch_latency, batch_dram, batch_closed_latency, batch_coverage_90, batch_compared, energy,
    skipped);
}

}  // namespace versieve::engine
