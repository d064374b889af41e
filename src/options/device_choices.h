// The texts of the values of DeviceOptions that other parts print or pass on.
#pragma once

#include <array>
#include <optional>

#include "carillon/options/device_options.h"
#include "src/options/option_set.h"

namespace carillon {

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

}  // namespace carillon
