// Announcement: the lines that a run prints before its first step.
#pragma once

#include <cstdint>
#include <string>

#include "src/report/console.h"
#include "src/train/loop/recorder.h"

namespace carillon {

/// Prints the device of each op and the memory of the activations.
void print_placement(const Tower& tower, const std::string& device, Console& console);

/// Prints the nodes of a captured step, one line each.
void print_captured_step(const std::vector<std::string>& nodes, Console& console);

/// "mnist: 397510 parameters; 2 ranks on CPU:0, 1 thread each, gradients averaged over mpi shared memory; ..."
std::string description_line(const Recorder::Parts& parts, const TrainOptions& options, int ranks);

/// That a run starts from the arrays of `initial`, without those of the names `excluded`.
std::string initialized_line(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded);

/// A warning if `initial` was trained with another --preprocessing than the run of `description`; else empty.
std::string preprocessing_warning(const LoadedCheckpoint& initial, const RunDescription& description);

/// That the run ended at `step` before, and why.
std::string nothing_to_do_line(const TrainOptions& options, std::int64_t step, EndCause end);

/// The smallest cross-entropy with smoothed labels, for users who wait for 0. `smoothing`: above 0 and at most 1.
std::string label_smoothing_line(double smoothing, std::int64_t classes);

}  // namespace carillon
