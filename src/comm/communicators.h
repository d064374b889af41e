// The communicators to choose from; one file each.
#pragma once

#include "carillon/comm/communicator.h"

namespace carillon {

/// One tower: every mean is the value itself.
std::unique_ptr<Communicator> make_self_communicator(Device& device);

/// Ranks of one host, gradients in memory that all of them map. Collective.
std::unique_ptr<Communicator> make_shared_memory_communicator(const Mpi& mpi);

/// Any ranks, messages. Collective.
std::unique_ptr<Communicator> make_message_communicator(Device& device);

/// The best of these for ranks whose gradients lie in the host's memory. Collective.
std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, Device& device);

/// For towers on GPUs, by make_communicator's `choice`; cuda_communicators.cpp, in builds with CUDA. Collective.
std::unique_ptr<Communicator> make_cuda_communicator(const Mpi& mpi, Device& device, std::string_view choice);

/// The part of `count` elements whose sum rank `rank` of `size` takes: {begin, end}, at multiples of 16 elements.
struct Slice {
  std::size_t begin, end;
};
Slice reduction_slice(std::size_t count, int rank, int size);

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...) for i in [0, count), summed in that order; out may be a part.
void mean_in_rank_order(std::span<const float* const> parts, std::size_t count, float factor, float* out);

}  // namespace carillon
