#include "src/train/loop/announcement.h"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/cli/options/option_groups.h"
#include "src/core/count_text.h"
#include "src/core/printable.h"

namespace carillon {

void print_placement(const Tower& tower, const std::string& device, Console& console) {
  for (const Graph::Node& node : tower.graph().nodes()) {
    console.print(
        fmt::format("{}: ({}): /job:worker/replica:0/task:0/device:{}", node.name, node.definition->type(), device));
  }
  console.print(fmt::format("activations and their gradients: {} bytes", tower.activation_bytes()));
}

void print_captured_step(const std::vector<std::string>& nodes, Console& console) {
  console.print(fmt::format("captured step: {} nodes", nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i) console.print(fmt::format("{:>4}  {}", i + 1, nodes[i]));
}

std::string description_line(const Recorder::Parts& parts, const TrainOptions& options, int ranks) {
  std::int64_t parameters = 0;
  for (const ParameterSpec& spec : parts.tower.graph().parameters()) parameters += spec.shape.element_count();
  std::string line =
      fmt::format("{}: {} parameters; {} rank{} on {}, {} thread{} each", options.model.name, parameters, ranks,
                  ranks == 1 ? "" : "s", parts.device.name(), parts.thread_count, parts.thread_count == 1 ? "" : "s");
  if (ranks > 1) line += fmt::format(", gradients averaged over {}", parts.communicator);
  const std::optional<Arithmetic> precision = options.device.precision;
  if (precision != Arithmetic::fp32) line += fmt::format(", precision {}", text_of(precision_choices, precision));
  if (parts.dataset != nullptr) {
    line += fmt::format("; {} records {}, global batch {}", parts.dataset->size(),
                        parts.dataset->in_memory() ? "in memory" : "read ahead", options.data.batch_size * ranks);
    if (options.data.micro_batch > 0) line += fmt::format(" in micro-batches of {}", options.data.micro_batch);
    const OptimizerOptions& length = options.optimizer;
    if (length.epochs > 0.0) line += fmt::format("; --epochs {}: {} steps", length.epochs, length.max_steps);
  }
  return line;
}

std::string initialized_line(const LoadedCheckpoint& initial, const std::vector<std::string>& excluded) {
  const std::size_t arrays = initial.state.variables.size() + initial.state.buffers.size();
  std::string line =
      fmt::format("initialized from {}: {} arrays", printable(initial.path.string()), arrays - excluded.size());
  if (!excluded.empty()) {
    line += fmt::format(", without the variables of --init-exclude: {}",
                        printable(fmt::format("{}", fmt::join(excluded, ", "))));
  }
  return line;
}

std::string preprocessing_warning(const LoadedCheckpoint& initial, const RunDescription& description) {
  const auto preprocessing = [](const std::string& json) {
    const nlohmann::json options = nlohmann::json::parse(json, nullptr, false);
    return options.is_object() && options.contains("preprocessing") ? options["preprocessing"].dump() : "";
  };
  const std::string trained = preprocessing(initial.state.options_json), own = preprocessing(description.json());
  if (trained.empty() || own.empty() || trained == own) return {};
  return fmt::format("{} was trained with --preprocessing {}, and this run has {}", printable(initial.path.string()),
                     printable(trained), own);
}

std::string nothing_to_do_line(const TrainOptions& options, std::int64_t step, EndCause end) {
  const std::string why =
      end == EndCause::target
          ? fmt::format("whose evaluation reached --stop-at-accuracy {}", options.task.stop_at_accuracy)
      : end == EndCause::patience      ? fmt::format("where --patience {} ended the run", options.task.patience)
      : options.optimizer.epochs > 0.0 ? fmt::format("and --epochs {} has {}", options.optimizer.epochs,
                                                     count_text(options.optimizer.max_steps, "step"))
                                       : fmt::format("and --max-steps is {}", options.optimizer.max_steps);
  return fmt::format("nothing to do: {} holds step {}, {} (--fresh starts over)",
                     printable(options.checkpoint.train_dir), step, why);
}

std::string label_smoothing_line(double smoothing, std::int64_t classes) {
  const double other = smoothing / static_cast<double>(classes), own = 1.0 - smoothing + other;
  const auto part = [](double share) { return share > 0.0 ? -share * std::log(share) : 0.0; };
  const double smallest = part(own) + static_cast<double>(classes - 1) * part(other);
  return fmt::format("label smoothing {}: with {} classes, the training loss stays above {:.2f}", smoothing, classes,
                     std::floor(100.0 * smallest) / 100.0);
}

}  // namespace carillon
