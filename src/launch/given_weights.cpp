#include "src/launch/given_weights.h"

#include <algorithm>

#include "carillon/app/program_spec.h"
#include "carillon/core/error.h"
#include "carillon/models/network.h"
#include "src/app/picture_options.h"
#include "src/app/saved_network.h"
#include "src/checkpoint/checkpoint.h"
#include "src/report/console.h"
#include "src/train/checkpointing/torch_weights.h"

namespace carillon {
namespace {

std::string preprocessing_of(const LoadedCheckpoint& loaded) {
  const std::optional<PictureOptions> pictures = trained_pictures(loaded);
  if (!pictures) return "";
  const auto* const found =
      std::ranges::find(preprocessing_choices, pictures->preprocessing, &Choice<Preprocessing>::value);
  return std::string(found->text);
}

/// Reads the arrays of a weight file except those of the last layer, so that a fault is known before the pictures are
/// converted. Errors: as read_weight_file.
void check_weights(const std::string& file, const std::string& network) {
  const NetworkSettings settings{.image = {.height = 64, .width = 64, .channels = 3}, .outputs = 1};
  const Network made = network_named(image_program(), network)(settings);
  const Graph graph = build_network(made, {1, Arithmetic::fp32, Purpose::training}).graph;
  read_weight_file(file, network, graph.parameters(), graph.buffers(), {"logits/*"});
}

}  // namespace

GivenNetwork network_of_weights(const std::string& from, const std::optional<std::string>& model) {
  std::string network, preprocessing;
  if (is_weight_file(from)) {
    network = network_of_weight_file(from);
    check_weights(from, network);
  } else {
    const LoadedCheckpoint loaded = find_checkpoint(from, print_warning);
    network = loaded.state.model;
    preprocessing = preprocessing_of(loaded);
    const std::vector<std::string> names = network_names(image_program());
    if (std::ranges::find(names, network) == names.end()) {
      fail(ExitCode::usage, "--from {}: {} is no network for pictures", from, network);
    }
  }
  if (model && *model != network) {
    fail(ExitCode::usage, "--model {}: the weights of --from {} are those of {}", *model, from, network);
  }
  return {network, preprocessing};
}

}  // namespace carillon
