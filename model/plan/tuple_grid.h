// Why whole kinds of tuples are not planned: said of a tuple by tuple_grid.cpp, of a precision
// class by planner.cpp.
#pragma once

namespace versieve {

inline constexpr const char* kOnlyNsa = "only nsa is planned in this version";
inline constexpr const char* kSigmoidUnknown =
    "what sampling=sigmoid accepts was not measured, and what other samplers accept says nothing "
    "about it";

}  // namespace versieve
