// Which kind of answer a route has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/request_parser.h"

namespace stoker {

/// The answer that streams make, in the shape of its route. `request_id` is a part of its id.
/// Borrows the engine.
std::unique_ptr<Answer> make_answer(const AnswerForm& form, const std::string& request_id,
                                    std::vector<std::unique_ptr<Stream>> streams,
                                    const Engine& engine);

}  // namespace stoker
