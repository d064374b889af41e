// The options of the training and evaluation programs, with the reference's values as defaults.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/train/train_options.h"
#include "src/app/option_set.h"
#include "src/train/input/open_records.h"

namespace carillon {

inline constexpr std::array cache_choices{Choice{CacheMode::automatic, "auto"}, Choice{CacheMode::memory, "memory"},
                                          Choice{CacheMode::none, "none"}};
inline constexpr std::array sharding_choices{Choice{Sharding::record, "record"}, Choice{Sharding::file, "file"}};
inline constexpr std::array device_choices{Choice{DeviceChoice::automatic, "auto"}, Choice{DeviceChoice::cpu, "cpu"},
                                           Choice{DeviceChoice::cuda, "cuda"}};
inline constexpr std::array precision_choices{Choice{Arithmetic::fp32, "fp32"}, Choice{Arithmetic::tf32, "tf32"},
                                              Choice{Arithmetic::bf16, "bf16"}};
inline constexpr std::array convolution_choices{Choice{ConvolutionMethod::automatic, "auto"},
                                                Choice{ConvolutionMethod::direct, "direct"},
                                                Choice{ConvolutionMethod::winograd, "winograd"}};
inline constexpr std::array isa_choices{
    Choice<std::optional<Isa>>{std::nullopt, "auto"}, Choice<std::optional<Isa>>{Isa::plain, "plain"},
    Choice<std::optional<Isa>>{Isa::avx2, "avx2"}, Choice<std::optional<Isa>>{Isa::avx512, "avx512"}};
inline constexpr std::array communicator_choices{Choice{CommunicatorChoice::automatic, "auto"},
                                                 Choice{CommunicatorChoice::nccl, "nccl"},
                                                 Choice{CommunicatorChoice::mpi, "mpi"}};
inline constexpr std::array wire_choices{Choice{Wire::fp32, "fp32"}, Choice{Wire::bf16, "bf16"}};
inline constexpr std::array schedule_choices{Choice{ScheduleKind::exponential, "exponential"},
                                             Choice{ScheduleKind::constant, "constant"},
                                             Choice{ScheduleKind::step, "step"},
                                             Choice{ScheduleKind::polynomial, "polynomial"},
                                             Choice{ScheduleKind::cosine, "cosine"},
                                             Choice{ScheduleKind::triangular, "triangular"}};
inline constexpr std::array on_nan_choices{Choice{OnNan::stop, "stop"}, Choice{OnNan::report, "report"}};
inline constexpr std::array resume_choices{Choice{ResumeMode::automatic, "auto"}, Choice{ResumeMode::never, "never"},
                                           Choice{ResumeMode::require, "require"}};

inline constexpr const char* test_time_augmentation_help =
    "evaluate on the mean of six views of each image, mirrored and shifted";

/// Declares the options that all training programs have on `set`, with `options`' present values as defaults.
void declare(OptionSet& set, TrainOptions& options);

/// Of the options as `set`, on which they were declared, parsed them. Errors: usage (options that cannot work
/// together), naming one of them.
void check_combinations(const OptionSet& set, const TrainOptions& options);

struct EvalOptions {
  std::vector<std::string> data;
  RecordOptions records;
  std::string checkpoint;  ///< a file, or a train directory: its newest good one
  bool raw_weights = false;
  bool test_time_augmentation = false;  ///< where the program has it
  std::string report;                   ///< a file to write; empty: none
  std::int64_t batch_size = 500;
  double pixel_scale = 0.0;       ///< 0: the checkpoint's
  std::int64_t first_label = -1;  ///< of pictures' records; -1: as those say
  DeviceChoice device = DeviceChoice::automatic;
  Arithmetic precision = Arithmetic::fp32;
  CpuSettings cpu = {};
  std::int64_t threads = 0;
  std::int64_t decode_threads = 2;
  double stall_timeout = 300.0;  ///< as TrainOptions'
};

void declare(OptionSet& set, EvalOptions& options);

}  // namespace carillon
