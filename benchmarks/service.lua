-- wrk -t2 -c16 -d20s -s benchmarks/service.lua http://127.0.0.1:8080/schedule
-- The problem and the answer to it stand in the files that PROBLEM and ANSWER name; every answer is compared.

local function read(name)
  local file = assert(io.open(assert(os.getenv(name), name .. " names no file"), "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local threads = {}
function setup(thread)
  table.insert(threads, thread)
end

function init()
  wrk.method, wrk.body = "POST", read("PROBLEM")
  expected = read("ANSWER"):gsub("%s+$", "")
  right, wrong = 0, 0
end

function response(status, headers, body)
  if status == 200 and body == expected then right = right + 1 else wrong = wrong + 1 end
end

function done()
  local good, bad = 0, 0
  for _, thread in ipairs(threads) do
    good, bad = good + thread:get("right"), bad + thread:get("wrong")
  end
  print(("right answers %d, wrong answers %d"):format(good, bad))
end
