// The page of charts of a run.
#pragma once

#include <string>
#include <vector>

#include "headway/fine_tuning.h"
#include "headway/translation_training.h"
#include "report/history.h"
#include "translation/training_data.h"

namespace headway::inline v0::internal {

// A self-contained HTML page: loss, BLEU, gradient norms by layer and learning rate over the steps.
std::string plot_html(const History& history, const std::vector<ValidationReport>& validations,
                      const std::vector<Direction>& directions);
// The same of a fine-tuning run: the task's scores instead of BLEU.
std::string plot_html(const History& history, const std::vector<FineTuneScores>& validations);

}  // namespace headway::inline v0::internal
