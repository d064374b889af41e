// Declares the groups of options on an OptionSet, and checks the parsed values (*_options.cpp).
//
// The values that a group has when it is declared are the defaults. All checks report usage errors. The message names
// an option that cannot work or that contradicts another option.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/cli/options/train_options.h"
#include "src/cli/options/option_set.h"

namespace carillon {

/// Declares the options of all training programs, in the order in which --help lists them.
void declare(OptionSet& set, TrainOptions& options);
/// Checks the values of each group, and combinations of values of several groups. Call it after `set` has parsed the
/// options.
void check_combinations(const OptionSet& set, const TrainOptions& options);

/// Returns the options that have no effect on a run with these options: options of another schedule or update rule, and
/// options of disabled features. The values of these options may differ between a run and its resumption. The records
/// must be resolved.
std::vector<std::string_view> options_without_effect(const TrainOptions& options);
std::vector<std::string_view> options_without_effect(const DataOptions& options);
std::vector<std::string_view> options_without_effect(const OptimizerOptions& options);
std::vector<std::string_view> options_without_effect(const ScheduleOptions& options);

void declare(OptionSet& set, DataOptions& options);
void check(const OptionSet& set, const DataOptions& options);
/// Declares only the options of this group that evaluation programs have.
void declare_for_evaluation(OptionSet& set, DataOptions& options);

inline constexpr const char* test_time_augmentation_help =
    "evaluate the mean over six views of each image, mirrored and shifted";

void declare(OptionSet& set, ModelOptions& options);
/// Declares --model. `names`: the values that the option accepts.
void declare_network(OptionSet& set, ModelOptions& options, const std::vector<std::string>& names);

void declare(OptionSet& set, TaskOptions& options);
void check(const TaskOptions& options, const DataOptions& data);
/// Declares the additional options of programs that also train on records with numbers.
void declare_regression(OptionSet& set, TaskOptions& options);
/// Checks that the options suit records with targets of this kind.
void check_for_target(const OptionSet& set, const TaskOptions& options, TargetKind target);

void declare(OptionSet& set, OptimizerOptions& options);
/// Checks that every option that an update rule names is declared; otherwise --optimizer would refuse a correct option.
/// Every program calls this when it declares its options. Errors: failed.
void check_rule_options(const OptionSet& set, const std::vector<RuleName>& rules);
void check(const OptionSet& set, const OptimizerOptions& options);
void declare(OptionSet& set, ScheduleOptions& options);
void check(const OptionSet& set, const ScheduleOptions& options);
/// Checks the end of the schedule. `length`: result of length_text. Errors: usage (the schedule ends within its
/// warm-up).
void check_end(const ScheduleOptions& options, std::int64_t max_steps, const std::string& length);
/// Sets `epochs` to 0 if --max-steps overrides --epochs. Errors: usage (one source, such as the command line, gives
/// both).
void choose_length(const OptionSet& set, OptimizerOptions& options);
/// Returns the length of the training as the user gave it, for messages: "--max-steps 100", "--epochs 2 (940 steps)".
std::string length_text(const OptimizerOptions& options);
/// Sets the end of a schedule, and the end of a lookahead with a power, to max_steps unless the user set them.
/// Checkpoints store the end, so a resumed run can report a change. Errors: usage (an end is too early).
void resolve_ends(OptimizerOptions& options);
/// If `epochs` is set, sets max_steps to the number of steps of that many passes over the records, rounded up. Then
/// calls resolve_ends, and changes all these values in `description`. Errors: usage (there are too many steps, or an
/// end is too early).
void resolve_epochs(OptimizerOptions& options, std::uint64_t record_count, std::uint64_t global_batch,
                    RunDescription& description);

void declare(OptionSet& set, DeviceOptions& options);
void check(const DeviceOptions& options);
/// Declares only the options of this group that evaluation programs have.
void declare_for_evaluation(OptionSet& set, DeviceOptions& options);

void declare(OptionSet& set, CheckpointOptions& options);
void check(const CheckpointOptions& options);

void declare(OptionSet& set, LoggingOptions& options);

void declare(OptionSet& set, FaultOptions& options);
/// Declares only the options of this group that evaluation programs have.
void declare_for_evaluation(OptionSet& set, FaultOptions& options);

// Texts of DeviceOptions values. Other parts of the program print these texts or pass them on.

inline constexpr std::array device_choices{Choice{DeviceChoice::automatic, "auto"}, Choice{DeviceChoice::cpu, "cpu"},
                                           Choice{DeviceChoice::cuda, "cuda"}};
inline constexpr std::array precision_choices{Choice<std::optional<Arithmetic>>{std::nullopt, "auto"},
                                              Choice<std::optional<Arithmetic>>{Arithmetic::fp32, "fp32"},
                                              Choice<std::optional<Arithmetic>>{Arithmetic::tf32, "tf32"},
                                              Choice<std::optional<Arithmetic>>{Arithmetic::bf16, "bf16"}};
inline constexpr std::array isa_choices{Choice<std::optional<Isa>>{std::nullopt, "auto"},
                                        Choice<std::optional<Isa>>{Isa::plain, "plain"},
                                        Choice<std::optional<Isa>>{Isa::avx2, "avx2"},
                                        Choice<std::optional<Isa>>{Isa::avx512, "avx512"},
                                        Choice<std::optional<Isa>>{Isa::avx512_bf16, "avx512_bf16"},
                                        Choice<std::optional<Isa>>{Isa::amx, "amx"}};
inline constexpr std::array communicator_choices{Choice{CommunicatorChoice::automatic, "auto"},
                                                 Choice{CommunicatorChoice::nccl, "nccl"},
                                                 Choice{CommunicatorChoice::mpi, "mpi"}};

// Time limit: when a run must save and exit before the job ends.

/// Returns the time at which a run that starts now must stop: --time-margin seconds before the limit. A --time-limit in
/// seconds counts from now. With --time-limit slurm, the limit is the end of the job (SLURM_JOB_END_TIME, seconds since
/// 1970). Returns nullopt if there is no limit. Errors: usage (the limit is bad or does not exceed the margin, or there
/// is no Slurm job).
std::optional<std::chrono::steady_clock::time_point> stop_time(const CheckpointOptions& options);

}  // namespace carillon
