#include "src/train/diagnosis/replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "src/core/crc32c.h"
#include "src/train/control/agreement.h"

namespace carillon {
namespace {

/// Ranks with equal values.
using Side = std::vector<std::size_t>;

/// "rank 2 on n1", "ranks 2, 3 on n1, n2".
std::string text_of(const Side& side, std::span<const std::string> hosts) {
  std::vector<std::string> of_side;
  for (const std::size_t rank : side) {
    if (std::ranges::find(of_side, hosts[rank]) == of_side.end()) of_side.push_back(hosts[rank]);
  }
  return fmt::format("rank{} {} on {}", side.size() == 1 ? "" : "s", fmt::join(side, ", "), fmt::join(of_side, ", "));
}

/// Groups ranks with equal checksums of one array, in the order of their lowest ranks.
std::vector<Side> sides_of(std::size_t array, std::span<const std::vector<std::uint32_t>> checksums) {
  std::vector<Side> sides;
  std::map<std::uint32_t, std::size_t> numbers;
  for (std::size_t rank = 0; rank < checksums.size(); ++rank) {
    const auto [number, is_new] = numbers.try_emplace(checksums[rank][array], sides.size());
    if (is_new) sides.emplace_back();
    sides[number->second].push_back(rank);
  }
  return sides;
}

std::string text_of(std::vector<Side> sides, std::size_t rank_count, std::span<const std::string> hosts) {
  const auto largest = std::ranges::max_element(sides, {}, &Side::size);
  const std::size_t majority = largest->size();
  if (2 * majority > rank_count) {
    sides.erase(largest);
    Side others;
    for (const Side& side : sides) others.insert(others.end(), side.begin(), side.end());
    std::ranges::sort(others);
    return fmt::format("{} differ{} from the other {}", text_of(others, hosts), others.size() == 1 ? "s" : "",
                       majority);
  }
  std::vector<std::string> texts;
  for (const Side& side : sides) texts.push_back(text_of(side, hosts));
  return fmt::format("{} differ{} from {}", texts.front(), sides.front().size() == 1 ? "s" : "",
                     fmt::join(texts.begin() + 1, texts.end(), " and from "));
}

/// The checksums of one rank.
struct ArrayChecksums {
  std::vector<std::string> names;
  std::vector<std::uint32_t> checksums;

  /// Adds each parameter's part of the flat array `array`. `kind`: kind of the values in the array.
  void add(std::string_view kind, std::span<float> array, const ParameterStore& parameters, Device& device) {
    std::vector<float> copy;
    const auto values = host_floats(device, {array.data(), {static_cast<std::int64_t>(array.size())}}, copy);
    const ParameterLayout& layout = parameters.layout();
    for (std::size_t i = 0; i < parameters.specs().size(); ++i) {
      const int parameter = static_cast<int>(i);
      names.push_back(fmt::format("{} {}", kind, parameters.specs()[i].name));
      checksums.push_back(crc32c(std::as_bytes(values.subspan(layout.offset(parameter), layout.count(parameter)))));
    }
  }
};

ArrayChecksums checksums_of(const Tower& tower, Device& device) {
  const ParameterStore& parameters = tower.parameters();
  ArrayChecksums of_tower;
  of_tower.add("variable", parameters.values(), parameters, device);
  if (!tower.replicates_slots()) return of_tower;
  for (std::size_t slot = 0; slot < tower.slots().size(); ++slot) {
    of_tower.add(tower.slots()[slot].name + " of", tower.slot(static_cast<int>(slot)), parameters, device);
  }
  return of_tower;
}

}  // namespace

std::string replica_difference(std::int64_t step, std::span<const std::string> names,
                               std::span<const std::vector<std::uint32_t>> checksums,
                               std::span<const std::string> hosts) {
  for (std::size_t array = 0; array < names.size(); ++array) {
    const std::vector<Side> sides = sides_of(array, checksums);
    if (sides.size() == 1) continue;
    return fmt::format("{} after step {}: {}", names[array], step, text_of(sides, checksums.size(), hosts));
  }
  return {};
}

void check_replicas(std::int64_t step, const Tower& tower, Device& device, const Mpi& mpi) {
  if (mpi.size() == 1) return;
  const ArrayChecksums own = checksums_of(tower, device);
  const std::size_t bytes = own.checksums.size() * sizeof(std::uint32_t);
  const std::vector<std::string> texts = mpi.all_gather({reinterpret_cast<const char*>(own.checksums.data()), bytes});
  if (std::ranges::count(texts, texts.front()) == mpi.size()) return;
  std::vector<std::vector<std::uint32_t>> of_all(texts.size(), std::vector<std::uint32_t>(own.checksums.size()));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::memcpy(of_all[rank].data(), texts[rank].data(), bytes);
  }
  fail_on_all(mpi, ExitCode::failed, replica_difference(step, own.names, of_all, mpi.all_gather(mpi.host())));
}

}  // namespace carillon
