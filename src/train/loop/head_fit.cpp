#include "src/train/loop/head_fit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>

#include "carillon/core/error.h"
#include "kernels/dense/dense.h"
#include "src/train/evaluation/evaluator.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

constexpr double penalty = 0.01;  ///< factor of the L2 penalty, which is half the sum of the squared weights
constexpr int most_steps = 100, memory = 8;
constexpr std::size_t most_bytes = std::size_t{1} << 30;  ///< limit for the features on each rank, in bytes

/// The function that the fit minimises, for a linear classifier of standardised features, and its gradient.
class Objective {
 public:
  Objective(Matrix features, std::span<const std::int32_t> labels, std::int64_t classes)
      : features_(std::move(features)), labels_(labels), classes_(classes) {}

  /// Computes the function at the point `at`, which contains weights [features, classes] and then biases. Also sets
  /// `gradient`.
  double value(const Vector& at, Vector& gradient) {
    const Eigen::Index count = features_.rows(), width = features_.cols();
    const Matrix weights = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
                               at.data(), width, classes_)
                               .cast<float>();
    Matrix logits = features_ * weights;
    logits.rowwise() += at.tail(classes_).cast<float>().transpose();
    double loss = 0.0;
    correct_ = 0;
    for (Eigen::Index i = 0; i < count; ++i) {
      auto row = logits.row(i);
      Eigen::Index predicted = 0;
      const float largest = row.maxCoeff(&predicted);
      const Eigen::Index label = labels_[static_cast<std::size_t>(i)];
      correct_ += predicted == label ? 1 : 0;
      const float of_label = row[label];
      row = (row.array() - largest).exp();
      const float sum = row.sum();
      loss += std::log(static_cast<double>(sum)) + largest - of_label;
      row /= sum;
      row[label] -= 1.0f;  // `row` is now `count` times the gradient of the mean loss with respect to the logits
    }
    const double scale = 1.0 / static_cast<double>(count);
    const Matrix of_weights = features_.transpose() * logits;
    gradient.resize(at.size());
    Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
        gradient.data(), width, classes_) = of_weights.cast<double>() * scale;
    gradient.tail(classes_) = logits.cast<double>().colwise().sum().transpose() * scale;
    const auto own = at.head(width * classes_);
    gradient.head(width * classes_) += penalty * own;
    return loss * scale + 0.5 * penalty * own.squaredNorm();
  }

  /// Returns the accuracy at the point of the last call of `value`.
  double accuracy() const { return static_cast<double>(correct_) / static_cast<double>(features_.rows()); }

 private:
  Matrix features_;
  std::span<const std::int32_t> labels_;
  std::int64_t classes_;
  Eigen::Index correct_ = 0;
};

/// Limited-memory BFGS with a backtracking line search. `at`: start and result.
void minimize(Objective& objective, Vector& at, const std::function<void()>& heartbeat,
              const std::function<bool()>& is_over) {
  std::deque<std::pair<Vector, Vector>> pairs;  // the last changes of the point, each with the change of the gradient
  Vector gradient;
  double value = objective.value(at, gradient);
  for (int step = 0; step < most_steps && gradient.norm() > 1e-5 && (step == 0 || !is_over()); ++step) {
    heartbeat();
    Vector direction = gradient;
    std::vector<double> factors;
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      factors.push_back(pair->first.dot(direction) / pair->first.dot(pair->second));
      direction -= factors.back() * pair->second;
    }
    if (!pairs.empty()) {
      const auto& [change, of_gradient] = pairs.back();
      direction *= change.dot(of_gradient) / of_gradient.squaredNorm();
    }
    for (const auto& [change, of_gradient] : pairs) {
      direction += (factors.back() - of_gradient.dot(direction) / change.dot(of_gradient)) * change;
      factors.pop_back();
    }
    const double slope = -direction.dot(gradient);
    double length = pairs.empty() ? 1.0 / std::max(1.0, gradient.norm()) : 1.0;
    Vector next, next_gradient;
    double next_value = 0.0;
    bool is_lower = false;
    for (int halved = 0; halved < 20 && !is_lower; ++halved, length *= 0.5) {
      heartbeat();
      next = at - length * direction;
      next_value = objective.value(next, next_gradient);
      is_lower = next_value <= value + 1e-4 * length * slope;
    }
    if (!is_lower) break;  // float32 cannot represent a further decrease
    Vector change = next - at, of_gradient = next_gradient - gradient;
    if (change.dot(of_gradient) > 1e-12) pairs.emplace_back(std::move(change), std::move(of_gradient));
    if (pairs.size() > memory) pairs.pop_front();
    const bool has_ended = value - next_value < 1e-6 * std::abs(value);
    at = next;
    gradient = next_gradient;
    value = next_value;
    if (has_ended) break;
  }
  objective.value(at, gradient);  // afterwards, accuracy() is the accuracy at the result
}

/// Collects the outputs and labels of all records.
class Collector final : public Metric {
 public:
  explicit Collector(std::int64_t width) : width_(static_cast<std::size_t>(width)) {}

  void add(std::span<const float> outputs, std::span<const std::byte> targets) override {
    features_.insert(features_.end(), outputs.begin(), outputs.end());
    const std::size_t first = labels_.size();
    labels_.resize(first + targets.size() / sizeof(std::int32_t));
    std::memcpy(labels_.data() + first, targets.data(), targets.size());
  }
  std::string contents() const override {
    std::string bytes(reinterpret_cast<const char*>(labels_.data()), labels_.size() * sizeof(std::int32_t));
    return bytes.append(reinterpret_cast<const char*>(features_.data()), features_.size() * sizeof(float));
  }
  void merge(std::string_view contents) override {
    const std::size_t sample = sizeof(std::int32_t) + width_ * sizeof(float), count = contents.size() / sample;
    check(contents.size() == count * sample, "features of another network");
    const std::size_t first_label = labels_.size(), first_feature = features_.size();
    labels_.resize(first_label + count);
    features_.resize(first_feature + count * width_);
    std::memcpy(labels_.data() + first_label, contents.data(), count * sizeof(std::int32_t));
    std::memcpy(features_.data() + first_feature, contents.data() + count * sizeof(std::int32_t),
                count * width_ * sizeof(float));
  }
  std::vector<Score> scores() const override { return {}; }
  std::string text() const override { return ""; }

  const std::vector<float>& features() const { return features_; }
  const std::vector<std::int32_t>& labels() const { return labels_; }

 private:
  std::size_t width_;
  std::vector<float> features_;
  std::vector<std::int32_t> labels_;
};

/// Returns the network up to the input of its last op.
Network without_head(const Network& network) {
  Network features = network;
  features.output = features.ops.back().inputs.front();
  features.ops.pop_back();
  features.frozen_variables.clear();
  return features;
}

}  // namespace

LinearClassifier fit_classifier(std::span<const float> features, std::int64_t feature_count,
                                std::span<const std::int32_t> labels, std::int64_t classes,
                                const std::function<void()>& heartbeat, const std::function<bool()>& is_over) {
  const auto count = static_cast<Eigen::Index>(labels.size());
  const auto is_class = [&](std::int32_t label) { return label >= 0 && label < classes; };
  check(features.size() == labels.size() * static_cast<std::size_t>(feature_count) && !labels.empty() &&
            std::ranges::all_of(labels, is_class),
        "features or labels do not match");
  Matrix x = Eigen::Map<const Matrix>(features.data(), count, feature_count);
  const Eigen::RowVectorXf mean = x.colwise().mean();
  x.rowwise() -= mean;
  Eigen::RowVectorXf deviation = (x.array().square().colwise().sum() / static_cast<float>(count)).sqrt();
  for (float& one : deviation) one = std::max(one, 1e-6f);
  // All features have the same factor, so that their ratios, which contain information, do not change.
  const float factor = 1.0f / std::sqrt(deviation.array().square().mean());
  x *= factor;
  Objective objective(std::move(x), labels, classes);
  Vector at = Vector::Zero(feature_count * classes + classes);
  minimize(objective, at, heartbeat, is_over);
  LinearClassifier fitted{.weights = std::vector<float>(static_cast<std::size_t>(feature_count * classes)),
                          .biases = std::vector<float>(static_cast<std::size_t>(classes)),
                          .accuracy = objective.accuracy()};
  std::vector<double> biases(fitted.biases.size());
  for (std::size_t c = 0; c < biases.size(); ++c)
    biases[c] = at[feature_count * classes + static_cast<Eigen::Index>(c)];
  for (std::size_t i = 0; i < fitted.weights.size(); ++i) {
    const double weight = at[static_cast<Eigen::Index>(i)] * static_cast<double>(factor);
    fitted.weights[i] = static_cast<float>(weight);
    biases[i % biases.size()] -= weight * mean[static_cast<Eigen::Index>(i / biases.size())];
  }
  std::ranges::transform(biases, fitted.biases.begin(), [](double value) { return static_cast<float>(value); });
  return fitted;
}

double HeadFit::training_seconds_per_record() const { return seconds_per_record / forward_share; }

double fine_tuning_passes(double samples, std::int64_t records) {
  constexpr std::int64_t fewest_samples = 2500;
  return samples / static_cast<double>(std::max(records, fewest_samples));
}

double fine_tuning_share(double passes) {
  const double part = std::clamp(passes / full_rate_passes, 0.0, 1.0);
  return part * part;
}

bool can_fit_head(const Network& network) {
  const OpDescription& head = network.ops.back();
  return head.type == &dense_op && head.name == network.output && params_of<DenseParams>(head.attributes).biases &&
         !head.inputs.empty();
}

std::optional<HeadFit> fit_head(const Network& network, const TrainOptions& options, const Dataset& records,
                                Tower& tower, const Mpi& mpi, Device& device, int decode_threads,
                                const std::function<void()>& heartbeat, const std::optional<HeadFitLimits>& limits) {
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  const OpDescription& head = network.ops.back();
  if (!can_fit_head(network)) {
    if (mpi.rank() == 0) print_text(STDOUT_FILENO, "--fit-head has no effect: the last op is no dense layer\n");
    return std::nullopt;
  }
  const Network features = without_head(network);
  const BuiltNetwork built = build_network(features, {1, Arithmetic::fp32, Purpose::evaluation});
  const std::int64_t width = built.graph.shape(built.output).elements_per_sample();
  const std::size_t row_bytes = static_cast<std::size_t>(width + options.task.value.outputs) * sizeof(float);
  const std::size_t most_records = most_bytes / row_bytes;
  const bool is_sampled = limits || records.size() > most_records;
  EvaluatorSettings settings = evaluator_settings(options, features, device.kind(),
                                                  is_sampled ? EvaluatedPart{} : part_of(records, mpi), decode_threads);
  settings.test_time_augmentation = false;
  Evaluator evaluator(features, settings, device);
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    LoadedCheckpoint values{options.checkpoint.train_dir, {}};
    values.state.model = network.name;
    tower.save(values.state);
    const auto is_of_head = [&](const NamedArray& array) { return array.name.starts_with(head.name + "/"); };
    std::erase_if(values.state.variables, is_of_head);
    evaluator.load(values, TrainedValues::variables);
  });
  evaluator.broadcast_from_first(mpi);
  std::optional<RandomSample> sample;
  std::size_t batches = 0;
  const auto is_over = [&] {
    ++batches;
    const std::size_t with_next = (batches + 1) * static_cast<std::size_t>(settings.batch_size);
    return (limits && Clock::now() >= limits->features) || with_next * mpi.size() > most_records;
  };
  if (is_sampled) sample = {options.model.seed, is_over};
  const auto computed_from = Clock::now();
  const std::unique_ptr<Metric> collected =
      evaluator.evaluate([&] { return std::make_unique<Collector>(width); }, records, mpi, heartbeat, sample);
  const auto& all = dynamic_cast<const Collector&>(*collected);
  const std::chrono::duration<double> computed = Clock::now() - computed_from;
  const auto count = static_cast<std::int64_t>(all.labels().size());
  HeadFit result{.records = count, .seconds_per_record = computed.count() / static_cast<double>(count)};
  mpi.broadcast(std::as_writable_bytes(std::span(&result, 1)), 0);
  mpi.run_on_all([&] {
    if (mpi.rank() != 0) return;
    const LinearClassifier fitted = fit_classifier(all.features(), width, all.labels(), options.task.value.outputs,
                                                   heartbeat, [&] { return limits && Clock::now() >= limits->fit; });
    const auto are_finite = [](const std::vector<float>& values) {
      return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    if (!are_finite(fitted.weights) || !are_finite(fitted.biases)) {
      return print_text(STDOUT_FILENO, "--fit-head has no effect: the fit found no finite weights\n");
    }
    tower.replace({{head.name + "/weights", fitted.weights}, {head.name + "/biases", fitted.biases}});
    const std::chrono::duration<double> spent = Clock::now() - started;
    const std::string of_all = all.labels().size() < records.size() ? fmt::format(" of {}", records.size()) : "";
    print_text(STDOUT_FILENO, fmt::format("fitted the layer {} in {:.1f} s: accuracy {:.3f} on {}{} training records\n",
                                          head.name, spent.count(), fitted.accuracy, count, of_all));
  });
  tower.broadcast_from_first();
  return result;
}

}  // namespace carillon
