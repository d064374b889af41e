#include "src/train/loop/shared_histograms.h"

#include <string>
#include <vector>

namespace carillon {

std::optional<ParameterHistograms> shared_histograms(const ParameterStore& parameters, Device& device, const Mpi& mpi) {
  if (mpi.hosts()[mpi.rank()] != mpi.hosts()[0]) return std::nullopt;
  if (mpi.local_size() == 1) return parameter_histograms(parameters, device, {});
  constexpr int second = 1;
  ParameterHistograms histograms;
  if (mpi.local_rank() <= second) {
    const bool is_second = mpi.local_rank() == second;
    histograms = parameter_histograms(parameters, device, {.variables = is_second, .gradients = !is_second});
  }
  const std::vector<std::string> texts = mpi.local_all_gather(pack(histograms.variables));
  if (mpi.rank() != 0) return std::nullopt;
  histograms.variables = unpack_histograms(texts[second]);
  return histograms;
}

}  // namespace carillon
